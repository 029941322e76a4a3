"""Rounds of chats: what one round does, what it leaves, and that nobody suffers from a neighbour."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.models.ledger import LedgerEntry
from portal.services import ledger, trips
from portal.services.ledger_check import check
from portal.services.rows import run
from portal.wire.errors import BadRequest
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn, Continuation
from proxy.protocol.chat import parse_chat
from proxy.protocol.delta import Done, Fault, FaultKind, ModelUsed, Thread
from proxy.services import together
from proxy.services.chat import prepare_chat
from proxy.services.continuity import keeping
from proxy.services.settling import Outcome, Settled
from proxy.services.together import LEFT, Ended, Opened, Opening, do_round
from tests.portal.people import all_at_once
from tests.proxy.accounts import account, occupy
from tests.proxy.chatting import Chatter, chatter, request

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sandbox_address(settings: Settings) -> None:
    """Nothing is sent here: the address is never asked."""
    settings.SONDE_UPSTREAM = "sandbox"
    settings.PERPLEXITY_BASE_URL = "http://127.0.0.1:9"


def opening(who: Chatter, said: Any = "Why is the sky blue?", **fields: Any) -> Opening:
    asked = parse_chat(request(said, **fields), "gpt")
    return Opening(who.principal, asked.model, partial(prepare_chat, who.principal, asked, "api"))


def opened(result: object) -> Opened:
    assert isinstance(result, Opened)
    return result


def answered(result: object, text: str = "Because of Rayleigh.", **more: Any) -> Ended:
    """The answer to a question that was opened, whole."""
    plan = opened(result).plan
    assert plan is not None
    thread = Thread(entry=f"entry-{plan.question.turn_id}")
    done = Done(answer=text, thread=thread, model=ModelUsed(plan.question.preference, False))
    outcome = Outcome(delivered=True, first_text_at=timezone.now(), text=text, done=done, **more)
    return Ended(plan, outcome)


def test_it_opens_many_chats_in_few_statements(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    account(parallel_limit=20)
    people = [chatter() for _ in range(3)]
    works = [opening(one) for one in people for _ in range(4)]

    with django_assert_max_num_queries(10 + 3):  # SQLite changes one account after the other
        results = do_round(works)

    assert all(opened(result).plan for result in results)
    assert ChatTurn.objects.filter(state="open").count() == 12
    assert {one.spent for one in people} == {"0 0.4"}
    assert AuditEntry.objects.filter(action="chat.started").count() == 12
    assert check() == []


def test_it_settles_many_chats_in_few_statements(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    account(parallel_limit=20, remaining_pro=50, quota_at=timezone.now())
    who = chatter()
    results = do_round([opening(who) for _ in range(8)])
    ended = [answered(result) for result in results]

    with django_assert_max_num_queries(13 + 8):  # and one turn
        settled = do_round(ended)

    assert all(isinstance(one, Settled) for one in settled)
    assert set(ChatTurn.objects.values_list("state", flat=True)) == {"delivered"}
    assert who.spent == "0.8 0"
    assert WebAccount.objects.get().remaining_pro == 42
    assert Continuation.objects.count() == 1, "equal questions have one place"
    assert check() == []


def test_a_turn_is_written_as_alone() -> None:
    account()
    who = chatter()
    grouped = opened(do_round([opening(who)])[0]).question
    alone = opened(together._open_alone(opening(who))).question

    names = {field.attname for field in ChatTurn._meta.concrete_fields} - {"id", "created_at", "lease_until"}
    rows = [ChatTurn.objects.filter(pk=one.turn_id).values(*names).get() for one in (grouped, alone)]
    assert rows[0] == rows[1]
    entries = [LedgerEntry.objects.get(subject=one.subject, kind="reserve") for one in (grouped, alone)]
    assert entries[0].own_delta == entries[1].own_delta
    assert entries[0].key_id == entries[1].key_id is not None


def test_what_is_wrong_with_one_question_is_its_own_affair() -> None:
    account()
    who = chatter()
    works = [opening(who), opening(who, model="no-such"), opening(who)]

    first, wrong, last = do_round(works)

    assert opened(first).plan
    assert isinstance(wrong, BadRequest)
    assert wrong.param == "model"
    assert opened(last).plan


def test_it_fills_places_and_has_the_rest_wait() -> None:
    account("one", parallel_limit=2)
    account("two", parallel_limit=1)
    who = chatter()

    plans = [opened(result).plan for result in do_round([opening(who) for _ in range(5)])]

    assert sum(plan is not None for plan in plans) == 3
    assert who.spent == "0 0.3"


def test_it_counts_the_places_that_were_taken_before() -> None:
    mine = account(parallel_limit=3)
    who = chatter()
    occupy(mine, who.user.pk, 2)

    plans = [opened(result).plan for result in do_round([opening(who), opening(who)])]

    assert [plan is not None for plan in plans] == [True, False]


def test_it_gives_the_place_of_an_answer_that_ends_to_the_next_question() -> None:
    account(parallel_limit=1)
    who = chatter()
    ending = answered(do_round([opening(who)])[0])

    settled, next_one = do_round([ending, opening(who)])

    assert isinstance(settled, Settled)
    assert opened(next_one).plan


def test_it_spreads_questions_over_accounts() -> None:
    account("one", parallel_limit=4)
    account("two", parallel_limit=4)

    plans = [opened(result).plan for result in do_round([opening(chatter()) for _ in range(6)])]

    names = [plan.session.name for plan in plans if plan]
    assert sorted(names) == ["one"] * 3 + ["two"] * 3


def test_it_continues_the_thread_of_the_answer_before() -> None:
    account("one")
    account("two")
    who = chatter()
    first = answered(do_round([opening(who, "Why?")])[0], "Because.")
    do_round([first])
    said = [("user", "Why?"), ("assistant", "Because."), ("user", "And then?")]
    messages = [{"role": role, "content": text} for role, text in said]

    plan = opened(do_round([opening(who, messages)])[0]).plan

    assert plan is not None
    assert plan.follows == first.outcome.done.thread if first.outcome.done else False
    assert plan.session.account_id == first.plan.session.account_id
    assert plan.query == "And then?"


@pytest.mark.parametrize("fields", [{"chats_per_day": 5}, {"monthly_cap": 5}])
def test_it_leaves_whoever_has_a_limit_of_their_own(fields: dict[str, Any]) -> None:
    account()
    limited, other = chatter(**fields), chatter()

    left, plain = do_round([opening(limited), opening(other)])

    assert left is LEFT
    assert opened(plain).plan
    assert limited.spent == "0 0"


def test_it_leaves_whoever_has_too_little() -> None:
    account()
    poor, other = chatter("0.05"), chatter()

    left, plain = do_round([opening(poor), opening(other)])

    assert left is LEFT
    assert opened(plain).plan
    assert ChatTurn.objects.filter(user=poor.user).count() == 0
    with pytest.raises(Exception, match="credit"):
        together._open_alone(opening(poor))


def test_an_answer_that_ends_lends_its_account_of_the_other_upstream_to_nobody() -> None:
    mine = account("one")
    who = chatter()
    ended = answered(do_round([opening(who)])[0])
    WebAccount.objects.filter(pk=mine.pk).update(sandbox=False)  # as if the upstream had changed since

    settled, left = do_round([ended, opening(who)])

    assert isinstance(settled, Settled)
    assert left is LEFT
    assert who.spent == "0.1 0"


@pytest.mark.django_db(transaction=True)
def test_what_is_not_plain_waits_for_no_round() -> None:
    account()
    who = chatter()
    plan = answered(do_round([opening(who)])[0]).plan

    with patch.object(together._groups, "submit", side_effect=AssertionError("a round")):
        async_to_sync(together.settle_soon)(Ended(plan, Outcome()))

    assert who.spent == "0 0"


def test_it_leaves_everybody_when_no_account_may_be_asked() -> None:
    assert do_round([opening(chatter())]) == [LEFT]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(),
        Outcome(fault=Fault(FaultKind.CUT)),
        Outcome(delivered=True, problem=BadRequest("no")),
    ],
)
def test_it_leaves_answers_that_did_not_come_whole(outcome: Outcome) -> None:
    account()
    who = chatter()
    plan = answered(do_round([opening(who)])[0]).plan

    assert do_round([Ended(plan, outcome)]) == [LEFT]
    assert who.spent == "0 0.1"


def test_it_settles_a_turn_once() -> None:
    account()
    who = chatter()
    ended = answered(do_round([opening(who)])[0])

    first, again = do_round([ended])[0], do_round([ended])[0]

    assert first != again == Settled()
    assert who.spent == "0.1 0"
    assert check() == []


def test_a_round_that_breaks_leaves_no_trace() -> None:
    account()
    who = chatter()
    ended = answered(do_round([opening(who)])[0])
    copy = opening(who)
    question = copy.prepare(offer=None)
    ledger.reserve(who.user.pk, question.subject, question.price)  # somebody has it already
    same = Opening(copy.who, copy.model, lambda *, offer: question)

    assert do_round([ended, same]) == [LEFT, LEFT]
    assert ChatTurn.objects.get(pk=ended.plan.question.turn_id).state == "open"


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
    account()
    who = chatter()
    ended = answered(do_round([opening(who)])[0])
    assert not speaks_plainly()
    forget_statements()

    settled, next_one = do_round([ended, opening(who)])

    assert settled != Settled()
    assert opened(next_one).plan
    assert speaks_plainly()
    assert who.spent == "0.1 0.1"
    assert check() == []


@pytest.mark.django_db(transaction=True)
def test_rounds_of_several_processes_share_the_places() -> None:
    account("one", parallel_limit=5)
    account("two", parallel_limit=5)
    people = [chatter() for _ in range(6)]

    rounds = all_at_once(6, lambda place: do_round([opening(people[place]) for _ in range(3)]))

    plans = [opened(result).plan for one in rounds if isinstance(one, list) for result in one]
    assert len(plans) == 18
    assert sum(plan is not None for plan in plans) == 10
    assert check() == []


def test_a_thread_that_is_kept_again_changes_its_place_and_its_hour_only() -> None:
    who, web, now = chatter(), account(), timezone.now()
    row = {"digest": "d" * 64, "user_id": who.principal.user_id, "account_id": web.pk, "thread": "one"}
    run(keeping([{**row, "used_at": now}]))
    later = {**row, "account_id": account("other").pk, "thread": "two", "used_at": now + timedelta(minutes=1)}
    run(keeping([{**row, "digest": "e" * 64}, later]))

    kept = Continuation.objects.get(digest="d" * 64)
    assert (kept.account_id, kept.thread, kept.used_at) == (web.pk, "two", later["used_at"])
    assert Continuation.objects.count() == 2


def test_of_two_threads_with_one_digest_the_last_stays() -> None:
    row = {"digest": "d" * 64, "user_id": chatter().principal.user_id, "account_id": account().pk}
    run(keeping([{**row, "thread": "one"}, {**row, "thread": "two"}]))

    assert Continuation.objects.get().thread == "two"
