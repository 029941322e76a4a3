from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from portal.models.users import User
from portal.services import keys, ledger
from portal.services.credits import refund_charge
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.services.upstreams import expects_sandbox
from portal.wire.errors import BadRequest, Conflict
from research.models.presets import Preset
from research.models.runs import Door, Run
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.states import State
from research.services import moves
from research.services.cancel import cancel_run
from research.services.money import end_run
from research.services.start import find_preset, retry_run, start_run
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> Principal:
    return somebody(credits=10)


def test_it_reserves_the_price_and_writes_the_first_event_with_the_row(who: Principal) -> None:
    run = ask(who, preset="60m")
    assert (run.state, run.price, run.time_budget) == (State.QUEUED, 4, 3600)
    assert ledger.balance_of(who.user_id).available == 6
    assert [(event.seq, event.kind) for event in run.events.all()] == [(1, "queued")]


@pytest.mark.parametrize(
    ("alias", "name"), [("high", "30m"), ("30m", "30m"), ("fast-search", "2m"), (None, "30m")]
)
def test_it_knows_presets_by_name_by_alias_and_by_default(alias: str | None, name: str) -> None:
    assert find_preset(alias).name == name


@pytest.mark.parametrize("word", ["35m", "", "HIGH"])
def test_it_names_the_enabled_presets_to_whoever_asks_for_another(who: Principal, word: str) -> None:
    Preset.objects.filter(name="60m").update(enabled=False)
    with pytest.raises(BadRequest) as refusal:
        ask(who, preset=word)
    assert refusal.value.param == "preset"
    assert "2m, 5m, 10m, 30m." in refusal.value.message
    assert not Run.objects.exists()


def test_it_gives_a_run_the_least_budget_that_its_door_asks_for(who: Principal) -> None:
    short = start_run(who, RunRequest("Why?", preset="2m", least_budget=1800), Door.MCP).run
    assert (short.price, short.time_budget) == (1, 1800)
    assert (
        start_run(who, RunRequest("Why?", preset="60m", least_budget=1800), Door.MCP).run.time_budget == 3600
    )


def test_it_keeps_the_terms_it_was_admitted_with(who: Principal) -> None:
    run = ask(who)
    Preset.objects.update(price=Decimal(9), time_budget=1)
    run.refresh_from_db()
    assert (run.price, run.time_budget) == (2, 1800)


def test_it_answers_the_same_request_with_the_same_run_and_one_reservation(who: Principal) -> None:
    first = start_run(who, RunRequest("Why?", preset="high", idempotency_key="k"), Door.REST)
    again = start_run(who, RunRequest(" Why? ", preset="30m", idempotency_key="k"), Door.BROWSER)
    assert (first.replayed, again.replayed) == (False, True)
    assert first.run.pk == again.run.pk
    assert ledger.balance_of(who.user_id).reserved == 2


@pytest.mark.parametrize(
    "other",
    [
        RunRequest("Why not?", idempotency_key="k"),
        RunRequest("Why?", preset="60m", idempotency_key="k"),
        RunRequest("Why?", Options(instructions="Be brief."), idempotency_key="k"),
        RunRequest("Why?", Options(domains=("example.org",)), idempotency_key="k"),
        RunRequest("Why?", Options(recency="week"), idempotency_key="k"),
    ],
)
def test_it_refuses_a_used_key_with_other_parameters(who: Principal, other: RunRequest) -> None:
    start_run(who, RunRequest("Why?", idempotency_key="k"), Door.REST)
    with pytest.raises(Conflict) as conflict:
        start_run(who, other, Door.REST)
    assert conflict.value.code == "idempotency_key_reused"
    assert Run.objects.count() == 1


def test_it_keeps_the_keys_of_different_users_apart(who: Principal) -> None:
    other = somebody()
    mine = ask(who, idempotency_key="k")
    theirs = ask(other, idempotency_key="k")
    assert mine.pk != theirs.pk


def test_it_finds_the_run_that_an_sdk_resends_without_a_key(who: Principal) -> None:
    first = ask(who, "Why?")
    assert ask(who, "Why?", retry_count=1).pk == first.pk
    assert ask(who, "Why else?", retry_count=1).pk != first.pk
    assert ask(who, "Why?").pk != first.pk


def test_it_turns_a_missing_credit_into_a_failed_run_that_cost_nothing() -> None:
    poor = somebody(credits=1)
    run = ask(poor)
    assert (run.state, run.error_code) == (State.FAILED, "insufficient_quota")
    assert (run.credits_charged, run.credits_refunded) == (0, 0)
    assert ledger.balance_of(poor.user_id).available == 1
    assert [event.kind for event in run.events.all()] == ["admission_refused"]


def test_it_replays_a_refusal_as_the_same_failed_run() -> None:
    poor = somebody(credits=1)
    first = ask(poor, idempotency_key="k")
    user = User.objects.get(pk=poor.user_id)
    ledger.grant(user.credits, Decimal(5), grant_key="later", reason="more", actor_id=None)
    assert ask(poor, idempotency_key="k").pk == first.pk


def test_it_counts_the_runs_in_flight_of_the_user_and_of_the_key(who: Principal) -> None:
    user = User.objects.get(pk=who.user_id)
    key, _ = keys.create_key(user, name="k", parallel_runs=1)
    through_key = Principal(who.user_id, who.scopes, key_id=key.pk, key_public_id=key.public_id)
    assert ask(through_key).state == State.QUEUED
    refused = ask(through_key)
    assert (refused.state, refused.error_code) == (State.FAILED, "rate_limit_exceeded")
    assert ask(who).state == State.QUEUED
    User.objects.update(parallel_runs=2)
    assert ask(who).error_code == "rate_limit_exceeded"
    assert ledger.balance_of(who.user_id).reserved == 4


def test_it_follows_up_only_a_report_of_the_same_user(who: Principal) -> None:
    run = ask(who)
    for previous in (run.pk, uuid4(), ask(somebody()).pk):
        with pytest.raises(BadRequest) as refusal:
            ask(who, "And then?", previous_id=previous)
        assert refusal.value.param == "previous_response_id"


def test_it_retries_an_ended_run_as_a_new_linked_one_of_the_same_user() -> None:
    poor = somebody(credits=1)
    failed = ask(poor, options=Options(domains=("example.org",)))
    admin = Principal(somebody().user_id, frozenset(), is_staff=True)
    run = retry_run(admin, failed.pk)
    assert (run.user_id, run.retry_of_id, run.question) == (poor.user_id, failed.pk, failed.question)
    assert run.options == failed.options
    with pytest.raises(BadRequest):
        retry_run(admin, ask(somebody()).pk)


def test_it_retries_once_while_that_is_at_work_and_nothing_that_was_deleted() -> None:
    failed = ask(somebody(credits=1))
    admin = Principal(somebody().user_id, frozenset(), is_staff=True)
    User.objects.filter(pk=failed.user_id).update(parallel_runs=None)
    ledger.grant(
        User.objects.get(pk=failed.user_id).credits, Decimal(9), grant_key="g", reason="more", actor_id=None
    )
    again = retry_run(admin, failed.pk)
    assert again.state == State.QUEUED
    with pytest.raises(BadRequest, match="at work"):
        retry_run(admin, failed.pk)
    cancel_run(Principal(failed.user_id, frozenset()), again.pk)
    assert retry_run(admin, failed.pk).pk != again.pk
    Run.objects.filter(pk=failed.pk).update(hidden_at=failed.created_at, question="")
    with pytest.raises(BadRequest, match="deleted"):
        retry_run(admin, failed.pk)


def test_it_says_in_the_run_what_was_refunded_later(who: Principal) -> None:
    run = ask(who)
    moves.move(run, State.SUBMITTING)
    run.state = State.SUBMITTING
    moves.move(run, State.RUNNING)
    run.state = State.RUNNING
    end_run(run, State.COMPLETED)
    assert refund_charge(run.subject, reason="a poor report", actor=None) == 2
    run.refresh_from_db()
    assert (run.credits_charged, run.credits_refunded) == (2, 2)
    with pytest.raises(Invalid):
        refund_charge(run.subject, reason="again", actor=None)
    run.refresh_from_db()
    assert run.credits_refunded == 2
    assert ledger.balance_of(who.user_id).available == 10


@pytest.mark.parametrize("told", ["sandbox", "live"])
def test_it_says_from_the_start_whether_the_answer_will_be_simulated(
    who: Principal, settings: Settings, told: str
) -> None:
    settings.SONDE_UPSTREAM = told
    assert ask(who).sandbox is (told == "sandbox")


def test_it_starts_a_run_with_few_statements(
    who: Principal, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """Presets, history, key, two limits, account, twice the ledger, the chats under this key, run, event,
    audit, and one spare."""
    expects_sandbox()  # which a process asks once in a while
    with django_assert_max_num_queries(14):
        ask(who, idempotency_key="k")
