"""Runs carried through web sessions of a real sandbox: every shape, fault and end, with the right money."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from pytest_django import Settings

from portal.services import ledger
from portal.services.principal import Principal
from proxy.models.accounts import WebAccount
from proxy.models.research import DeepResearch
from proxy.services.accounts import open_turns
from research.models.runs import Run
from research.protocol.states import State
from research.services.cancel import cancel_run
from tests.proxy.accounts import account
from tests.research.driving import drive, drive_to, step
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)
# `embedded` below: what the upstream does is the same on either engine, and is played on one.

QUESTION = "How do tides work?"
SHAPES = ("chunks", "patches", "workflow", "text")
PLACES = ("text", "both")
NUISANCES = (
    "cut-stream=2",
    "error-stream=9",
    "poll-drop=2",
    "poll-cut=1",
    "poll-server-error=2",
    "poll-rate-limit=1",
    "poll-challenge=1",
    "report-in=assets",
    "framing=odd",
    "framing=lf",
    "split-utf8",
    "dribble=97",
    "mirror",
    "renumber",
    "terminal-kib=1500",
    "no-end",
    "clarify=0.2",
    "no-token",
    "no-model",
)
FAILURES = {
    "failed": "failed to answer",
    "failed-silent": "failed to answer",
    "error-frame": "failed to answer",
    "empty] [sandbox:report-in=none": "empty answer",
    "stopped": "stopped upstream",
    "invalid": "does not accept",
    "expire=0": "no longer knows",
    "late-drop": "not known",
    "late-gateway-timeout": "not known",
    "drop": "not known",
    "unavailable": "not available",
}
"""Marker → what the run says."""
TROUBLED = {
    "limited": "unchecked",
    "expired": "unchecked",
    "walled": "unchecked",
    "blocked": "blocked",
    "challenged": "blocked",
    "forbidden": "unchecked",
    "busy": "limited",
}
"""A word of a session → the health that its account then has: some are checked before they are believed."""


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


def outcomes(who: Principal, markers: Iterable[str]) -> dict[str, Run]:
    """One run per marker, all of them side by side, at their ends."""
    runs = {marker: ask(who, f"{QUESTION} [sandbox:{marker}]") for marker in markers}
    for run in runs.values():
        step(run.pk)
    return {marker: drive(run) for marker, run in runs.items()}


def test_it_carries_a_question_to_the_whole_report_and_charges_once(
    sandbox: SandboxServer, who: Principal
) -> None:
    tester = account()
    run = drive(ask(who, QUESTION))
    assert (run.state, run.backend, spent(who)) == (State.COMPLETED, "web", 2)
    cover, _, body = run.report.text.partition("\n\n#")
    assert "report" in cover
    assert len(body) > 4000
    assert run.report.model == "pplx_alpha"
    assert run.sandbox
    assert sandbox.counts().web_entries(QUESTION) == 1
    row = DeepResearch.objects.get(key=run.upstream_key)
    assert (row.state, row.held_until, row.account) == (DeepResearch.State.ENDED, None, tester)


@pytest.mark.embedded
def test_it_shows_goals_searches_pages_and_the_time_to_go(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = ask(who, f"{QUESTION} [sandbox:stuck] [sandbox:duration=0.3]")
    drive_to(run, State.RUNNING)
    while not (run := step(run.pk)).progress.get("pages"):
        assert not run.is_terminal
    assert run.progress["goals"]
    assert run.progress["query_count"] > 0
    assert 0 < run.progress["percent"] < 100
    assert run.progress["eta"] > 0
    told = run.events.filter(kind="progress").order_by("seq").values_list("data", flat=True)
    assert [goal for data in told for goal in data.get("goals", ())] == run.progress["goals"]


@pytest.mark.embedded
def test_it_delivers_the_report_body_of_every_shape(sandbox: SandboxServer, who: Principal) -> None:
    account(parallel_limit=20)
    shapes = [f"shape={shape}] [sandbox:report-in={place}" for shape in SHAPES for place in PLACES]
    reports = {marker: run.report for marker, run in outcomes(who, shapes).items()}
    texts = {report.text for report in reports.values()}
    assert len(texts) == 1
    assert min(len(text) for text in texts) > 4000
    assert {len(report.sources) for report in reports.values()} == {8}
    assert [
        report.checks["out_of_range"] for report in reports.values() if report.checks["out_of_range"]
    ] == []


@pytest.mark.embedded
def test_it_calls_a_cover_note_without_a_report_incomplete(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive(ask(who, f"{QUESTION} [sandbox:report-in=none]"))
    assert (run.state, run.report.incomplete_reason) == (State.INCOMPLETE, "cover_note_only")


@pytest.mark.embedded
def test_it_gets_over_every_nuisance(sandbox: SandboxServer, who: Principal) -> None:
    account(parallel_limit=40)
    ends = {
        marker: (run.state, run.error_message, sandbox.counts().web_entries(run.question))
        for marker, run in outcomes(who, NUISANCES).items()
    }
    assert ends == dict.fromkeys(NUISANCES, (State.COMPLETED, "", 1))


@pytest.mark.embedded
def test_it_gives_everything_back_when_nothing_was_delivered(sandbox: SandboxServer, who: Principal) -> None:
    tester = account(parallel_limit=40)
    ended = outcomes(who, FAILURES)
    assert {run.state for run in ended.values()} == {State.FAILED}
    unlike = {
        marker: run.error_message
        for marker, run in ended.items()
        if FAILURES[marker] not in run.error_message
    }
    assert unlike == {}
    assert spent(who) == 0
    assert open_turns(tester) == 0


@pytest.mark.embedded
def test_it_puts_the_question_to_one_account_after_another_and_notes_what_each_is(
    sandbox: SandboxServer, who: Principal
) -> None:
    for priority, word in enumerate(TROUBLED):
        account(word, f"sandbox-max-{word}", priority=priority)
    good = account("good", priority=99)
    run = drive(ask(who, QUESTION))
    assert run.state == State.COMPLETED
    assert DeepResearch.objects.get(key=run.upstream_key).account == good
    assert dict(WebAccount.objects.exclude(pk=good.pk).values_list("name", "health")) == TROUBLED
    assert events(run).count("waiting") == len(TROUBLED)


def test_it_passes_over_an_account_whose_cookies_cannot_be_opened(
    sandbox: SandboxServer, who: Principal
) -> None:
    account("closed", jar="sealed by a key that is gone", priority=0)
    alone = drive(ask(who, f"{QUESTION} Alone?"))
    good = account("good", priority=1)
    run = drive(ask(who, QUESTION))

    assert (alone.state, spent(who)) == (State.FAILED, 2)
    assert (run.state, events(run).count("waiting")) == (State.COMPLETED, 0)
    assert DeepResearch.objects.get(key=run.upstream_key).account == good


def test_it_takes_one_from_the_counter_of_research_alone(sandbox: SandboxServer, who: Principal) -> None:
    tester = account(remaining_pro=7, remaining_research=3, quota_at=timezone.now())
    drive(ask(who, QUESTION))
    tester.refresh_from_db()
    assert (tester.remaining_pro, tester.remaining_research) == (7, 2)


def test_it_leaves_chat_alone_when_research_is_used_up(sandbox: SandboxServer, who: Principal) -> None:
    tester = account(token="sandbox-max-limited", remaining_pro=7, quota_at=timezone.now())
    run = drive(ask(who, QUESTION))
    assert run.state == State.FAILED
    assert "use of this model left" in run.error_message
    tester.refresh_from_db()
    assert (tester.remaining_pro, tester.remaining_research, tester.health) == (7, 0, "unchecked")


def test_it_asks_no_account_that_has_none_left(sandbox: SandboxServer, who: Principal) -> None:
    account(remaining_research=0, quota_at=timezone.now())
    run = drive(ask(who, QUESTION))
    assert run.state == State.FAILED
    assert sandbox.counts().web_asks(QUESTION) == 0


@pytest.mark.embedded
def test_it_needs_an_account_that_can_do_research(sandbox: SandboxServer, who: Principal) -> None:
    account(tier="free")
    run = drive(ask(who, QUESTION))
    assert "Pro or Max" in run.error_message


def test_it_holds_the_place_of_its_account_while_it_runs(sandbox: SandboxServer, who: Principal) -> None:
    tester = account(parallel_limit=1)
    first = drive_to(ask(who, f"{QUESTION} [sandbox:duration=1]"), State.RUNNING)
    assert open_turns(tester) == 1
    second = step(ask(who, "Another?").pk)
    assert (second.state, events(second)[-1]) == (State.QUEUED, "waiting")
    assert drive(first).state == State.COMPLETED
    assert open_turns(tester) == 0
    assert drive(second).state == State.COMPLETED


def test_it_frees_a_place_that_nobody_looks_after(sandbox: SandboxServer, who: Principal) -> None:
    tester = account()
    drive_to(ask(who, f"{QUESTION} [sandbox:stuck]"), State.RUNNING)
    DeepResearch.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    assert open_turns(tester) == 0


@pytest.mark.embedded
@pytest.mark.parametrize("words", ["rotating", "restless-rotating2", "chunked"])
def test_it_keeps_a_session_alive_that_gets_a_new_token_each_time(
    sandbox: SandboxServer, who: Principal, words: str
) -> None:
    tester = account(token=f"sandbox-max-{words}-a")
    assert drive(ask(who, f"{QUESTION} [sandbox:duration=1]")).state == State.COMPLETED
    tester.refresh_from_db()
    assert tester.health == WebAccount.Health.ACTIVE


def test_it_really_stops_the_upstream_and_releases_everything(sandbox: SandboxServer, who: Principal) -> None:
    tester = account()
    run = drive_to(ask(who, f"{QUESTION} [sandbox:stuck]"), State.RUNNING)
    cancel_run(who, run.pk)
    run = drive(run)
    assert (run.state, spent(who), run.notes) == (State.CANCELLED, 0, [])
    assert sandbox.web_entries()[0]["stopped_at"] is not None
    assert open_turns(tester) == 0


@pytest.mark.embedded
def test_it_stops_without_the_upstreams_word_when_that_cannot_be_had(
    sandbox: SandboxServer, who: Principal
) -> None:
    account()
    run = drive_to(ask(who, f"{QUESTION} [sandbox:stuck] [sandbox:cancel-refused]"), State.RUNNING)
    cancel_run(who, run.pk)
    assert drive(run).state == State.CANCELLED


def test_it_delivers_what_there_is_when_the_budget_is_spent(sandbox: SandboxServer, who: Principal) -> None:
    account()
    run = drive_to(ask(who, f"{QUESTION} [sandbox:duration=4] [sandbox:stuck]"), State.RUNNING)
    Run.objects.filter(pk=run.pk).update(deadline_at=timezone.now())
    run = drive(run)
    assert (run.state, spent(who)) == (State.FAILED, 0)
    assert sandbox.web_entries()[0]["stopped_at"] is not None
