"""Runs carried to their ends against a real sandbox: every fault, the right state, the right money."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from pytest_django import Settings

from portal.services import ledger
from portal.services.principal import Principal
from research.models.backends import BackendPolicy
from research.models.presets import Preset
from research.models.runs import Run
from research.protocol.outcome import Options
from research.protocol.states import State
from research.services import watch
from research.services.cancel import cancel_run
from tests.research.driving import drive, drive_to, step
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> Principal:
    return somebody(credits=10)


def available(who: Principal) -> Decimal:
    balance = ledger.balance_of(who.user_id)
    assert balance.reserved == 0
    return balance.available


def events(run: Run) -> list[str]:
    return list(run.events.order_by("seq").values_list("kind", flat=True))


def test_it_carries_a_question_to_a_cited_report_and_charges_once(
    sandbox: SandboxServer, who: Principal
) -> None:
    run = drive(ask(who, "How do tides work?"))
    assert run.state == State.COMPLETED
    assert available(who) == 8
    assert (run.credits_charged, run.credits_refunded) == (2, 0)
    assert len(run.report.sources) == 8
    assert {source["provenance"] for source in run.report.sources} == {"cited"}
    assert run.report.html.startswith("<")
    assert sandbox.counts().agent_jobs("How do tides work?") == 1
    assert events(run)[:3] == ["queued", "submitting", "running"]
    assert events(run)[-1] == "completed"
    assert run.sandbox


def test_it_shows_progress_while_the_upstream_works(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:duration=1]"))
    assert "progress" in events(run)
    assert run.progress["query_count"] > 0
    assert run.progress["page_count"] > 0


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("failed", ""),
        ("failed-silent", ""),
        ("empty", "without"),
        ("incomplete-empty", ""),
        ("content-null", "without"),
        ("upstream-cancelled", "cancelled"),
        ("invalid", ""),
    ],
)
def test_it_gives_everything_back_when_nothing_was_delivered(
    sandbox: SandboxServer, who: Principal, marker: str, message: str
) -> None:
    run = drive(ask(who, f"Tides? [sandbox:{marker}]"))
    assert run.state == State.FAILED
    assert run.error_message
    assert message in run.error_message
    assert available(who) == 10
    assert run.credits_refunded == run.credits_charged == 2


def test_it_keeps_what_was_cut_short_and_says_so(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:incomplete]"))
    assert run.state == State.INCOMPLETE
    assert run.report.incomplete_reason == "max_output_tokens"
    assert available(who) == 8


@pytest.mark.parametrize(
    "marker",
    [
        "retired",
        "migration-required-text",
        "org-key",
        "blocked",
        "bad-key",
        "no-credit",
        "server-error",
        "bad-gateway",
    ],
)
def test_it_moves_to_the_next_backend_when_another_can_cure_it(
    sandbox: SandboxServer, who: Principal, marker: str
) -> None:
    run = drive(ask(who, f"Tides? [sandbox:agent.{marker}]"))
    assert run.state == State.COMPLETED
    assert run.backend == "sonar"
    assert "failover" in events(run)
    assert "agent refused the run" in run.notes[0]
    assert available(who) == 8


def test_it_fails_with_the_last_refusal_when_no_backend_is_left(
    sandbox: SandboxServer, who: Principal
) -> None:
    run = drive(ask(who, "Tides? [sandbox:agent.blocked] [sandbox:sonar.retired]"))
    assert run.state == State.FAILED
    assert "Agent API" in run.error_message
    assert available(who) == 10


def test_it_waits_out_a_rate_limit_on_the_same_backend(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:agent.rate-limit=2] [sandbox:retry-after=7]"))
    assert run.state == State.COMPLETED
    assert run.backend == "agent"
    waits = run.events.filter(kind="waiting")
    assert [event.data["seconds"] for event in waits] == [7, 7]


def test_it_never_sends_again_what_a_living_worker_lost_without_a_key(
    sandbox: SandboxServer, who: Principal
) -> None:
    question = "Tides? [sandbox:late-drop]"
    run = drive(ask(who, question))
    assert run.state == State.FAILED
    assert "not known" in run.error_message
    assert sandbox.counts().agent_submissions(question) == 1
    assert available(who) == 10


def test_it_sends_again_where_the_upstream_takes_a_key(sandbox: SandboxServer, who: Principal) -> None:
    Preset.objects.update(backends=["sonar"])
    run = drive(ask(who, "Tides? [sandbox:late-drop=1]"))
    assert run.state == State.COMPLETED
    assert sandbox.counts().sonar_jobs(str(run.upstream_key)) == 1
    assert sandbox.counts().sonar_submissions(str(run.upstream_key)) == 2


@pytest.mark.parametrize("backend", ["sonar", "sonar-sdk"])
def test_it_speaks_both_path_families_of_the_legacy_api(
    sandbox: SandboxServer, who: Principal, backend: str
) -> None:
    Preset.objects.update(backends=[backend])
    run = drive(ask(who))
    assert (run.state, run.backend) == (State.COMPLETED, backend)


@pytest.mark.parametrize(
    "marker", ["poll-server-error", "poll-rate-limit", "poll-drop", "poll-truncated", "poll-bad-gateway"]
)
def test_it_outlasts_trouble_on_the_way_to_the_answer(
    sandbox: SandboxServer, who: Principal, marker: str
) -> None:
    run = drive(ask(who, f"Tides? [sandbox:{marker}=3]"))
    assert run.state == State.COMPLETED
    assert events(run).count("trouble") == 1


def test_it_gives_up_a_run_that_the_upstream_forgot(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:stuck] [sandbox:expire=0.1]"))
    assert run.state == State.FAILED
    assert "expired" in run.error_message
    assert available(who) == 10


def test_it_gives_up_when_every_answer_is_broken(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:poll-truncated]"))
    assert run.state == State.FAILED
    assert available(who) == 10


def test_it_records_the_cost_to_the_last_digit(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides? [sandbox:cost=0.1234567891]"))
    assert run.report.upstream_cost == Decimal("0.1234567891")


@pytest.mark.parametrize("marker", ["stuck", "duration=1] [sandbox:cancel-ignored"])
def test_it_stops_a_running_run_upstream_and_gives_everything_back(
    sandbox: SandboxServer, who: Principal, marker: str
) -> None:
    run = drive_to(ask(who, f"Tides? [sandbox:{marker}]"), State.RUNNING)
    cancel_run(who, run.pk)
    run = drive(run)
    assert run.state == State.CANCELLED
    assert sandbox.counts().totals["cancels"] == 1
    assert available(who) == 10


def test_it_charges_for_a_stop_in_progress_only_where_the_preset_says_so(
    sandbox: SandboxServer, who: Principal
) -> None:
    Preset.objects.update(charge_cancelled=True)
    waiting = ask(who, "Tides? [sandbox:stuck] one")
    cancel_run(who, waiting.pk)
    running = drive_to(ask(who, "Tides? [sandbox:stuck] two"), State.RUNNING)
    cancel_run(who, running.pk)
    assert drive(running).credits_refunded == 0
    assert drive(waiting).credits_refunded == 2
    assert available(who) == 8


def test_it_delivers_what_was_finished_before_the_stop_arrived(
    sandbox: SandboxServer, who: Principal
) -> None:
    run = drive_to(ask(who, "Tides? [sandbox:duration=0]"), State.RUNNING)
    cancel_run(who, run.pk)
    run = drive(run)
    assert run.state == State.COMPLETED
    assert available(who) == 8


def test_it_stops_here_what_cannot_be_stopped_upstream(sandbox: SandboxServer, who: Principal) -> None:
    Preset.objects.update(backends=["sonar"])
    run = drive_to(ask(who, "Tides? [sandbox:stuck]"), State.RUNNING)
    cancel_run(who, run.pk)
    run = drive(run)
    assert run.state == State.CANCELLED
    assert "cannot be stopped" in run.notes[-1]


def test_it_stops_without_an_upstream_that_never_confirms(sandbox: SandboxServer, who: Principal) -> None:
    run = drive_to(ask(who, "Tides? [sandbox:stuck] [sandbox:cancel-server-error]"), State.RUNNING)
    cancel_run(who, run.pk)
    run = drive_to(run, State.CANCELLING)
    Run.objects.update(stop_by=timezone.now() - timedelta(seconds=1))
    run = drive(run)
    assert run.state == State.CANCELLED
    assert "did not confirm" in run.notes[-1]


def spend_budget(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))


def test_it_ends_a_run_at_its_budget_with_the_text_so_far(sandbox: SandboxServer, who: Principal) -> None:
    run = drive_to(ask(who, "Tides? [sandbox:duration=9] [sandbox:text-early]"), State.RUNNING)
    while "characters" not in run.progress or not run.progress["characters"]:
        run = step(run.pk)
        assert not run.is_terminal, "the sandbox shows no partial text"
    spend_budget(run)
    run = drive(run)
    assert run.state == State.INCOMPLETE
    assert run.report.incomplete_reason == "time_budget"
    assert available(who) == 8


def test_it_fails_a_run_at_its_budget_when_there_is_no_text(sandbox: SandboxServer, who: Principal) -> None:
    run = drive_to(ask(who, "Tides? [sandbox:stuck-queued]"), State.RUNNING)
    spend_budget(run)
    run = drive(run)
    assert run.state == State.FAILED
    assert "budget" in run.error_message
    assert sandbox.counts().totals["cancels"] == 1
    assert available(who) == 10


def test_it_fails_a_run_that_no_upstream_took_in_time(sandbox: SandboxServer, who: Principal) -> None:
    run = ask(who)
    spend_budget(run)
    run = drive(run)
    assert run.state == State.FAILED
    assert sandbox.counts().totals.get("submissions", 0) == 0


def left_in_submitting(run: Run, backend: str) -> None:
    """As a process leaves it that dies between sending and recording."""
    Run.objects.filter(pk=run.pk).update(
        state=State.SUBMITTING, backend=backend, submissions=1, lease_until=timezone.now() - timedelta(1)
    )


def test_it_sends_once_more_after_a_death_and_tells_it_in_the_receipt(
    sandbox: SandboxServer, who: Principal
) -> None:
    run = ask(who)
    left_in_submitting(run, "agent")
    run = drive(run)
    assert run.state == State.COMPLETED
    assert "sent once more" in run.notes[0]
    assert available(who) == 8


def test_it_sends_no_third_time(sandbox: SandboxServer, who: Principal) -> None:
    run = ask(who)
    left_in_submitting(run, "agent")
    Run.objects.update(submissions=2)
    run = drive(run)
    assert run.state == State.FAILED
    assert available(who) == 10
    assert sandbox.counts().agent_submissions(run.question) == 0


def test_it_does_not_send_again_where_the_operator_forbids_it(sandbox: SandboxServer, who: Principal) -> None:
    BackendPolicy.objects.filter(name="agent").update(resubmit=False)
    run = ask(who)
    left_in_submitting(run, "agent")
    assert drive(run).state == State.FAILED
    assert available(who) == 10


def test_it_skips_a_backend_that_is_switched_off(sandbox: SandboxServer, who: Principal) -> None:
    BackendPolicy.objects.filter(name="agent").update(enabled=False)
    assert drive(ask(who)).backend == "sonar"


def test_it_says_which_options_the_backend_could_not_honour(sandbox: SandboxServer, who: Principal) -> None:
    run = drive(ask(who, "Tides?", options=Options(search_mode="academic")))
    assert run.state == State.COMPLETED
    assert "search_mode" in run.ignored


def test_it_polls_many_runs_in_one_batch_with_few_statements(
    sandbox: SandboxServer, django_assert_max_num_queries: object, settings: Settings
) -> None:
    who = somebody(credits=500)
    runs = [drive_to(ask(who, f"Tides? [sandbox:stuck-queued] {n}"), State.RUNNING) for n in range(40)]
    Run.objects.update(next_run_at=timezone.now())
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        assert watch.poll() == len(runs)
