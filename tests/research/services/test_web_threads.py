"""Threads of runs through web sessions: found after a death, continued, and deleted with their runs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone
from pytest_django import Settings

from portal.services import ledger, network
from portal.services.principal import Principal
from proxy.models.research import DeepResearch
from proxy.protocol.inquiry import Inquiry
from proxy.services import deep_research, forgetting
from proxy.services.deep_threads import thread_of
from research.models.backends import BackendPolicy
from research.models.runs import Run
from research.protocol.outcome import Options
from research.protocol.states import State
from research.services import sweep
from research.services.cancel import cancel_run
from research.services.threads import forget_threads
from tests.proxy.accounts import account
from tests.research.driving import drive, drive_to, step
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)
# `embedded` below: what the upstream does is the same on either engine, and is played on one.

QUESTION = "How do tides work?"


@pytest.fixture
def who() -> Principal:
    return somebody(credits=100)


@pytest.fixture(autouse=True)
def web_alone(sandbox: SandboxServer, settings: Settings) -> None:
    settings.RESEARCH_BACKENDS = ["web"]


def spent(who: Principal) -> int | Decimal:
    balance = ledger.balance_of(who.user_id)
    assert balance.reserved == 0
    return 100 - balance.available


def events(run: Run) -> list[str]:
    return list(run.events.order_by("seq").values_list("kind", flat=True))


def left_while_sending(run: Run) -> None:
    """As a worker leaves it that dies after the upstream took the question."""
    drive_to(run, State.RUNNING)
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(
        state=State.SUBMITTING, upstream_id="", lease_token=None, lease_until=None, next_run_at=past
    )


def test_it_finds_the_thread_of_a_worker_that_died_and_sends_nothing_again(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    run = ask(who, QUESTION)
    left_while_sending(run)
    run = drive(run)
    assert (run.state, run.submissions) == (State.COMPLETED, 1)
    assert spent(who) == 2
    assert "was found there" in run.notes[0]
    assert sandbox.counts().web_entries(QUESTION) == 1


def test_it_really_stops_a_thread_that_it_found_when_its_user_has_left(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    run = ask(who, f"{QUESTION} [sandbox:stuck]")
    left_while_sending(run)
    cancel_run(who, run.pk)
    assert drive(run).state == State.CANCELLED
    assert sandbox.web_entries()[0]["stopped_at"] is not None


@pytest.mark.parametrize(("resubmit", "asks"), [(False, 1), (True, 2)])
def test_it_does_what_the_operator_said_when_no_thread_is_known(
    sandbox: SandboxServer, who: Principal, resubmit: bool, asks: int
) -> None:
    BackendPolicy.objects.update_or_create(name="web", defaults={"resubmit": resubmit})
    account()
    run = ask(who, QUESTION)
    left_while_sending(run)
    DeepResearch.objects.update(thread="", state="asked", held_until=timezone.now())
    run = drive(run)
    assert run.state == (State.COMPLETED if resubmit else State.FAILED)
    assert spent(who) == (2 if resubmit else 0)
    assert sandbox.counts().web_entries(QUESTION) == asks
    assert ("sent once more" if resubmit else "credits were returned") in run.notes[0]


def test_a_worker_that_was_taken_for_dead_changes_nothing_of_what_came_after_it(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    inquiry = Inquiry(uuid4(), QUESTION, f"{QUESTION} [sandbox:slow=1]")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(network.call, deep_research.begin(inquiry, 20))
        while not (late.done() or sandbox.web_entries()):
            time.sleep(0.02)
        assert network.call(deep_research.trace(inquiry.key)) == "unknown"
        begun = network.call(deep_research.begin(inquiry, 20))
        refused = late.result(30)

    assert isinstance(begun, deep_research.Begun)
    assert isinstance(refused, deep_research.NotBegun)
    row = DeepResearch.objects.get()
    thread = thread_of(row)
    assert thread is not None
    assert (row.state, thread.entry) == ("running", sandbox.web_entries()[0]["id"])


def test_it_simply_sends_what_a_worker_had_not_begun_to_send(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = ask(who, QUESTION)
    Run.objects.filter(pk=run.pk).update(state=State.SUBMITTING, backend="web", submissions=1)
    run = drive(run)
    assert (run.state, run.submissions, run.notes) == (State.COMPLETED, 1, [])
    assert sandbox.counts().web_entries(QUESTION) == 1


def test_it_continues_the_thread_of_an_earlier_run(sandbox: SandboxServer, who: Principal) -> None:
    account("other", priority=-1, parallel_limit=1)
    account("tester")
    occupied = drive_to(ask(who, "Something else? [sandbox:stuck]"), State.RUNNING)
    first = drive(ask(who, QUESTION))
    Run.objects.filter(pk=occupied.pk).update(deadline_at=timezone.now())
    drive(occupied)
    second = drive(ask(who, "And the moon?", previous_id=first.pk))
    assert second.state == State.COMPLETED
    newest, earlier = (entry for entry in sandbox.web_entries() if "else" not in entry["question"])
    assert newest["thread"] == earlier["thread"] == earlier["id"]


@pytest.mark.embedded
def test_it_says_everything_again_where_the_earlier_thread_is_gone(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    first = drive(ask(who, QUESTION))
    second = drive(ask(who, "And the moon? [sandbox:forget=404]", previous_id=first.pk))
    assert second.state == State.COMPLETED
    newest = sandbox.web_entries()[0]
    assert newest["thread"] == newest["id"]
    assert QUESTION in str(newest["body"])


@pytest.mark.embedded
def test_it_names_the_options_that_a_session_cannot_express(sandbox: SandboxServer, who: Principal) -> None:
    account()
    options = Options(
        instructions="Be brief.",
        search_mode="academic",
        recency="week",
        domains=("example.org",),
        reasoning_effort="high",
        model="gpt-9",
        language="de",
    )
    run = drive(ask(who, QUESTION, options=options))
    assert run.ignored == ["model", "reasoning_effort", "search_domain_filter"]
    params = sandbox.web_entries()[0]["body"]["params"]
    assert (params["sources"], params["language"]) == (["scholar"], "de")
    assert (params["search_recency_filter"], params["is_incognito"]) == ("WEEK", True)


def test_it_deletes_the_thread_when_the_run_is_gone(
    sandbox: SandboxServer, who: Principal, settings: Settings
) -> None:
    account()
    run = drive(ask(who, QUESTION))
    settings.RETENTION_DAYS = 7
    Run.objects.filter(pk=run.pk).update(completed_at=timezone.now() - timedelta(days=8))
    assert sweep.tidy() == 1
    assert forgetting.forget_due() == 1
    assert sandbox.web_entries()[0]["deleted_at"] is not None
    assert not DeepResearch.objects.exists()


def test_it_deletes_no_thread_that_still_runs(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive_to(ask(who, f"{QUESTION} [sandbox:stuck]"), State.RUNNING)
    forget_threads([run.pk])
    assert forgetting.forget_due() == 0
    cancel_run(who, run.pk)
    drive(run)
    assert forgetting.forget_due() == 1
    assert sandbox.web_entries()[0]["deleted_at"] is not None


def test_it_tries_again_to_delete_what_could_not_be_deleted(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive(ask(who, QUESTION))
    forget_threads([run.pk])
    sandbox.fail_next("server-error", phase="delete", api="web")
    assert forgetting.forget_due() == 0
    row = DeepResearch.objects.get(key=run.upstream_key)
    assert row.forget_tries == 1
    assert row.forget_at is not None
    assert row.forget_at > timezone.now()
    DeepResearch.objects.update(forget_at=timezone.now())
    assert forgetting.forget_due() == 1


@pytest.mark.embedded
def test_it_keeps_a_thread_to_be_deleted_until_its_upstream_is_there(
    sandbox: SandboxServer, who: Principal, settings: Settings, tmp_path: Path
) -> None:
    account()
    run = drive(ask(who, QUESTION))
    forget_threads([run.pk])
    listening = settings.PERPLEXITY_BASE_URL
    settings.PERPLEXITY_BASE_URL, settings.DATA_DIR = "https://api.perplexity.ai", tmp_path
    assert forgetting.forget_due() == 0
    settings.PERPLEXITY_BASE_URL = listening
    DeepResearch.objects.update(forget_at=timezone.now())
    assert forgetting.forget_due() == 1
    assert sandbox.web_entries()[0]["deleted_at"] is not None


@pytest.mark.embedded
def test_it_waits_for_a_session_that_is_renewed_while_the_run_goes_on(
    sandbox: SandboxServer, who: Principal
) -> None:
    tester = account()
    run = drive_to(ask(who, f"{QUESTION} [sandbox:duration=0.5]"), State.RUNNING)
    name = sandbox.web_entries()[0]["account"]
    sandbox.control("web/account", {"account": name, "standing": "expired"})
    while not (run := step(run.pk)).faults:
        assert not run.is_terminal
    tester.refresh_from_db()
    assert tester.check_due_at <= timezone.now()
    sandbox.control("web/account", {"account": name, "standing": "active"})
    assert drive(run).state == State.COMPLETED
    assert events(run).count("trouble") == 1


def test_it_keeps_the_names_of_a_thread_sealed(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive(ask(who, QUESTION))
    row = DeepResearch.objects.get(key=run.upstream_key)
    entry = sandbox.web_entries()[0]["id"]
    thread = thread_of(row)
    assert thread is not None
    assert (thread.entry, bool(thread.token)) == (entry, True)
    stored = f"{DeepResearch.objects.values().get()} {Run.objects.values().get()} {list(run.events.values())}"
    assert entry not in stored
    assert thread.token not in stored
