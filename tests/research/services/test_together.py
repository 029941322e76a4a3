"""Rounds of starts: what one round does, what it leaves to be done alone, and that each is done once."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch
from uuid import uuid4
from weakref import WeakKeyDictionary

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.models.users import User
from portal.services import keys, ledger, trips
from portal.services.ledger_check import check
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from research.models.presets import Preset
from research.models.reports import RunEvent
from research.models.runs import Door, Run
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.states import State
from research.services.start import Started, start_run
from research.services.together import Asking, do_round
from tests.portal.people import all_at_once
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


def caller(credits: int | str = 100, **of_key: Any) -> Principal:
    """Somebody new who comes with a key."""
    user = User.objects.get(pk=somebody(credits).user_id)
    key, _ = keys.create_key(user, name="k", **of_key)
    scopes = frozenset(key.scopes)
    return Principal(user.pk, scopes, key_id=key.pk, key_public_id=key.public_id, request_id="r")


def asking(who: Principal, question: str = "Why is the sky blue?", **fields: Any) -> Asking:
    return Asking(who, RunRequest(question, **fields), Door.REST)


def started(result: object) -> Run:
    assert isinstance(result, Started)
    return result.run


def test_it_starts_many_runs_in_few_statements(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    people = [caller() for _ in range(3)]
    do_round([asking(people[0])])  # a process asks for the usual time once in a while
    askings = [asking(one, idempotency_key=f"k{n}") for one in people for n in range(4)]

    with django_assert_max_num_queries(10 + 3):  # SQLite changes one account after the other
        runs = [started(result) for result in do_round(askings)]

    stored = Run.objects.filter(pk__in=[run.pk for run in runs])
    assert Counter(stored.values_list("state", flat=True)) == {"queued": 12}
    assert [ledger.balance_of(one.user_id).reserved for one in people] == [10, 8, 8]
    assert AuditEntry.objects.filter(action="run.started").count() == 13
    assert check() == []


def test_a_run_is_written_as_alone() -> None:
    who = caller()
    options = Options(instructions="Be brief.", domains=("example.org",), language="de")
    request = RunRequest(' Why "so"?\n', options, preset="60m", metadata={"a": "b"}, ignored=("user",))
    grouped = started(do_round([Asking(who, request, Door.REST)])[0])
    alone = start_run(who, request, Door.REST).run

    assert written(grouped) == written(alone)
    stored = Run.objects.get(pk=grouped.pk)
    assert stored.deadline_at - stored.created_at == alone.deadline_at - alone.created_at


def written(run: Run) -> list[Any]:
    """All that is in the database of a start, but for ids and moments."""
    own = {"id", "upstream_key", "created_at", "next_run_at", "deadline_at"}
    names = {field.attname for field in Run._meta.concrete_fields} - own
    audited = AuditEntry.objects.filter(target=run.public_id)
    return [
        *Run.objects.filter(pk=run.pk).values(*names),
        *RunEvent.objects.filter(run=run).values("seq", "kind", "data"),
        *LedgerEntry.objects.filter(subject=run.subject).values("kind", "delta", "own_delta", "key_id"),
        *audited.values("actor", "key_id", "address", "request_id", "action", "detail"),
    ]


def test_it_starts_the_same_request_once_and_leaves_the_others_to_find_it() -> None:
    who, other = caller(), caller()

    results = do_round([asking(one, idempotency_key="k") for one in (who, who, other, who)])

    assert [result is None for result in results] == [False, True, False, True]
    assert started(results[0]).pk != started(results[2]).pk
    assert do_round([asking(who, idempotency_key="k")]) == [None]
    assert Run.objects.count() == 2


def test_it_leaves_whoever_has_too_little_for_the_next_run() -> None:
    who = caller(credits=3)

    results = do_round([asking(who), asking(who), asking(who, preset="2m")])

    assert [result is None for result in results] == [False, True, False]
    assert ledger.balance_of(who.user_id).available == 0
    assert check() == []


@pytest.mark.parametrize("limit", [{"parallel_runs": 5}, {"monthly_cap": 50}])
def test_it_leaves_whoever_comes_with_a_limited_key(limit: dict[str, int]) -> None:
    limited, plain = do_round([asking(caller(**limit)), asking(caller())])
    assert limited is None
    assert started(plain).state == State.QUEUED


def test_it_leaves_users_with_a_limit_and_those_whose_month_is_over() -> None:
    busy, due = caller(), caller()
    User.objects.filter(pk=busy.user_id).update(parallel_runs=5)
    CreditAccount.objects.filter(user_id=due.user_id).update(
        allowance_since=timezone.now().replace(year=2020), allowance=0
    )
    assert do_round([asking(busy), asking(due)]) == [None, None]
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [{"previous_id": uuid4()}, {"options": Options(attachments=("file-1",))}, {"retry_count": 1}],
)
def test_it_knows_by_the_request_what_does_not_stand_by_itself(fields: dict[str, Any]) -> None:
    assert asking(caller()).is_plain
    assert not asking(caller(), **fields).is_plain


def test_what_is_wrong_with_one_request_is_its_own_affair() -> None:
    Preset.objects.filter(name="60m").update(enabled=False)
    who = caller()

    first, wrong, last = do_round([asking(who), asking(who, preset="60m"), asking(who, preset="fast-search")])

    assert (started(first).preset, started(last).preset) == ("30m", "2m")
    assert isinstance(wrong, BadRequest)
    assert wrong.param == "preset"
    assert "2m, 5m, 10m, 30m." in wrong.message


def test_it_takes_nothing_for_what_is_free() -> None:
    Preset.objects.filter(name="2m").update(price=0)
    poor = caller(credits=0)
    assert started(do_round([asking(poor, preset="2m")])[0]).price == 0
    assert not LedgerEntry.objects.filter(kind="reserve").exists()


def test_a_round_that_breaks_leaves_no_trace() -> None:
    who = caller()
    twice = uuid4()
    with patch("research.services.start.uuid4", return_value=twice):
        assert do_round([asking(who), asking(who)]) == [None, None]
    assert not Run.objects.exists()
    assert ledger.balance_of(who.user_id).available == 100


def test_a_round_that_could_not_begin_has_waited_for_all_of_its_runs() -> None:
    locked = OperationalError("database is locked")
    works = [asking(caller())]
    with patch.object(transaction.Atomic, "__enter__", side_effect=locked), pytest.raises(OperationalError):
        do_round(works)


@pytest.mark.django_db(transaction=True)
def test_what_was_committed_is_not_started_again_though_nobody_was_told() -> None:
    who, commit = caller(), connection.commit

    def commit_and_break() -> None:
        commit()
        raise OperationalError("server closed the connection unexpectedly")

    with patch.object(connection, "commit", commit_and_break):
        first, odd, last = do_round([asking(who), asking(who, preset="none"), asking(who)])

    assert {started(first).pk, started(last).pk} == set(Run.objects.values_list("pk", flat=True))
    assert odd is None
    assert check() == []


def speaks_plainly() -> bool:
    return trips._speaks_plainly


def forget_statements() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")


@pytest.mark.django_db(transaction=True)
@pytest.mark.cluster
def test_a_round_whose_statements_a_pooler_has_lost_is_done_once_more_as_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trips, "_speaks_plainly", False)
    monkeypatch.setattr(trips, "_prepared", WeakKeyDictionary())
    forget_statements()
    who = caller()
    started(do_round([asking(who)])[0])
    assert not speaks_plainly()
    forget_statements()

    first, last = do_round([asking(who), asking(who)])

    assert {started(first).pk, started(last).pk} < set(Run.objects.values_list("pk", flat=True))
    assert Run.objects.count() == 3
    assert speaks_plainly()
    assert check() == []


@pytest.mark.django_db(transaction=True)
def test_rounds_of_several_processes_start_the_same_request_once() -> None:
    who = caller(credits=6)

    def start(place: int) -> Run:
        requests = [asking(who, idempotency_key="same"), asking(who, idempotency_key=f"own {place}")]
        for one, result in zip(requests, do_round(requests), strict=True):
            run = started(result) if result else ask(who, idempotency_key=one.request.idempotency_key)
            if one.request.idempotency_key == "same":
                same = run
        return same

    runs = all_at_once(6, start)

    assert len({run.pk if isinstance(run, Run) else run for run in runs}) == 1
    assert Counter(Run.objects.values_list("state", flat=True)) == {"queued": 3, "failed": 4}
    assert ledger.balance_of(who.user_id).available == 0
    assert check() == []
