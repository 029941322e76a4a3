"""From one backend to the next: who answered, what was told of it, and what nobody need hear."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.services import ledger
from portal.services.principal import Principal
from research.models.runs import Run
from research.protocol.outcome import Options
from research.protocol.states import State
from tests.proxy.accounts import account
from tests.research.driving import drive
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = "How do tides work?"


@pytest.fixture
def who() -> Principal:
    return somebody(credits=10)


def failovers(run: Run) -> list[tuple[str, str]]:
    data = run.events.filter(kind="failover").order_by("seq").values_list("data", flat=True)
    return [(event["from"], event["to"]) for event in data]


def test_it_falls_from_agent_to_sonar_to_web_and_tells_it(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["agent", "sonar", "web"]
    account()
    question = f"{QUESTION} [sandbox:agent.no-credit] [sandbox:sonar.retired]"
    run = drive(ask(who, question, options=Options(domains=("example.org",))))
    assert run.state == State.COMPLETED
    assert failovers(run) == [("agent", "sonar"), ("sonar", "web")]
    assert (run.backend, run.report.model) == ("web", "pplx_alpha")
    assert run.ignored == ["search_domain_filter"]
    assert [note.split(" ")[0] for note in run.notes] == ["agent", "sonar"]
    assert ledger.balance_of(who.user_id).available == 8


@pytest.mark.usefixtures("sandbox")
def test_it_researches_with_a_cookie_alone_and_tells_nothing_of_what_nobody_set_up(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.SONDE_UPSTREAM, settings.PPLX_WEB_URL = "live", sandbox.url
    settings.RESEARCH_BACKENDS = ["agent", "sonar", "web"]
    account(sandbox=False)
    run = drive(ask(who, QUESTION))
    assert (run.state, run.backend, run.sandbox) == (State.COMPLETED, "web", False)
    assert (run.notes, failovers(run)) == ([], [])


def test_it_says_what_to_do_where_nothing_is_set_up(settings: Settings, who: Principal) -> None:
    settings.SONDE_UPSTREAM = "live"
    run = drive(ask(who, QUESTION))
    assert run.state == State.FAILED
    assert "set PERPLEXITY_API_KEY, or add a Perplexity session" in run.error_message


def test_it_keeps_the_last_real_refusal_where_the_next_is_not_set_up(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["agent", "web", "responses"]
    run = drive(ask(who, f"{QUESTION} [sandbox:agent.no-credit]"))
    assert run.state == State.FAILED
    assert run.backend == "agent"
    assert "session" not in run.error_message


@pytest.mark.parametrize("fault", ["unavailable", "challenge", "upsell", "authwall"])
def test_it_moves_on_from_a_session_that_refuses_before_it_takes_the_run(
    sandbox: SandboxServer, settings: Settings, who: Principal, fault: str
) -> None:
    settings.RESEARCH_BACKENDS = ["web", "agent"]
    account()
    run = drive(ask(who, f"{QUESTION} [sandbox:web.{fault}]"))
    assert (run.state, run.backend) == (State.COMPLETED, "agent")
    assert failovers(run) == [("web", "agent")]


def test_it_asks_nobody_else_where_a_session_may_have_taken_the_run(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["web", "agent"]
    account()
    question = f"{QUESTION} [sandbox:web.late-drop]"
    run = drive(ask(who, question))
    assert (run.state, run.backend) == (State.FAILED, "web")
    assert "upstream_submission_unknown" in run.notes[0]
    assert sandbox.counts().agent_submissions(question) == 0


def test_it_waits_no_longer_than_a_few_tries_for_a_busy_session_while_another_backend_is_left(
    sandbox: SandboxServer, settings: Settings, who: Principal
) -> None:
    settings.RESEARCH_BACKENDS = ["web", "agent"]
    account(token="sandbox-max-busy")
    run = drive(ask(who, QUESTION))
    assert (run.state, run.backend) == (State.COMPLETED, "agent")
