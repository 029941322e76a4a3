"""The four research tools: the seed's contract (agent-api §9), over the services that REST uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from portal.models.audit import AuditEntry
from portal.services import keys, ledger
from portal.wire.errors import Problem
from research.mcp_tools.runs import read_report
from research.models.presets import Preset
from research.models.reports import Report
from research.models.runs import Door, Run
from research.protocol.mcp_pages import PAGE_SIZE
from tests.research.api.callers import caller, end, run_of
from tests.research.mcp_tools.calling import Agent, agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def me() -> Agent:
    return agent()


def test_it_starts_a_run_and_says_that_nothing_is_answered_yet(me: Agent) -> None:
    told = me.start()
    assert list(told) == [
        "id",
        "status",
        "preset",
        "credits_reserved",
        "retry_after_seconds",
        "next_check_at",
        "next_step",
        "sandbox",
    ]
    assert (told["status"], told["preset"], told["credits_reserved"]) == ("in_progress", "30m", 2)
    assert told["retry_after_seconds"] == 300
    assert told["next_check_at"].endswith("Z")
    assert told["next_step"].startswith("The question is NOT answered yet")
    assert told["id"] in told["next_step"]
    run = run_of(told["id"])
    assert (run.door, run.idempotency_key) == (Door.MCP, "one")
    assert AuditEntry.objects.filter(action="run.started", target=run.public_id).exists()


@pytest.mark.parametrize(("preset", "wait"), [("2m", 20), ("5m", 50), ("10m", 100), ("60m", 300)])
def test_it_says_when_a_look_is_worth_while(me: Agent, preset: str, wait: int) -> None:
    assert me.start(preset=preset)["retry_after_seconds"] == wait


def test_it_is_one_run_and_one_charge_for_one_key(me: Agent) -> None:
    first = me.start(preset="high")
    again = me.start("  Why is the sky blue? ", preset="30m")
    assert again["id"] == first["id"]
    assert Run.objects.count() == 1
    assert ledger.balance_of(me.who.user_id).available == 8


def test_it_shares_its_keys_with_rest() -> None:
    rest = caller()
    run = rest.start("Why?", preset="30m", idempotency_key="shared")
    who = keys.authenticate_key(rest.client.headers["Authorization"].split()[1], "127.0.0.1")
    assert who is not None
    assert Agent(who).start("Why?", key="shared")["id"] == run
    error = Agent(who).error("start_research", question="Else?", idempotency_key="shared")
    assert (error["code"], error["param"]) == ("idempotency_key_reused", "idempotency_key")
    assert "new idempotency_key" in error["message"]


def test_it_tells_of_a_run_that_was_not_admitted(me: Agent) -> None:
    poor = agent(credits=1)
    told = poor.start(preset="30m")
    assert (told["status"], told["credits_reserved"], told["retry_after_seconds"]) == ("failed", 0, 0)
    assert "credits are missing" in told["next_step"]
    answer = poor.call("get_research", id=told["id"])
    assert not answer.is_error
    assert answer.structured is not None
    assert answer.structured["error"]["code"] == "insufficient_quota"
    assert ledger.balance_of(poor.who.user_id).available == 1


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"idempotency_key": "k"}, "question"),
        ({"question": " ", "idempotency_key": "k"}, "question"),
        ({"question": 3, "idempotency_key": "k"}, "question"),
        ({"question": "x" * 20_001, "idempotency_key": "k"}, "question"),
        ({"question": "Why?"}, "idempotency_key"),
        ({"question": "Why?", "idempotency_key": ""}, "idempotency_key"),
        ({"question": "Why?", "idempotency_key": "k" * 201}, "idempotency_key"),
        ({"question": "Why?", "idempotency_key": "k", "preset": "35m"}, "preset"),
        ({"question": "Why?", "idempotency_key": "k", "presett": "2m"}, "presett"),
        ({"question": "Why\0?", "idempotency_key": "k"}, "question"),
    ],
)
def test_it_names_the_argument_that_is_wrong_and_costs_nothing(
    me: Agent, arguments: dict[str, Any], param: str
) -> None:
    error = me.error("start_research", **arguments)
    assert (error["code"], error["param"]) == ("invalid_request", param)
    assert param in error["message"] or param == "preset"
    assert not Run.objects.exists()


def test_it_tells_of_a_run_under_way_without_waiting(me: Agent) -> None:
    run = me.start(preset="2m")["id"]
    told = me.structured("get_research", id=run)
    assert (told["status"], told["text"], told["page"], told["page_count"]) == (
        "in_progress",
        None,
        None,
        None,
    )
    assert 15 <= told["retry_after_seconds"] <= 20
    assert "Do not start the research again" in told["next_step"]
    assert me.error("get_research", id=run, page=2)["param"] == "page"


def test_it_gives_the_report_its_sources_and_what_it_cost(me: Agent) -> None:
    run = me.start()["id"]
    end(run, text="It scatters [1].", credits_charged=2)
    checks = {"out_of_range": ["[9]"]}
    Report.objects.update(checks=checks)
    answer = me.call("get_research", id=run)
    told = answer.structured
    assert told is not None
    assert (told["status"], told["page"], told["page_count"], told["next_page"]) == ("completed", 1, 1, None)
    assert told["text"] == "It scatters [1]."
    assert told["sources"] == [{"id": 1, "title": "A", "url": "https://a.org", "provenance": "cited"}]
    assert told["checks"] == checks
    assert told["usage"]["pocket_search"]["credits_charged"] == 2
    assert "research_receipt" not in told["usage"]["pocket_search"]
    assert "It scatters [1]." in answer.text
    assert "https://a.org" in answer.text
    [link] = answer.links
    assert link.uri == f"research://{run}/report.md"


def test_it_gives_a_long_report_byte_for_byte(me: Agent) -> None:
    part = "## Teil {} – ü\r\n\n" + "Wörter und Wörter. " * 90 + "\n\n```\n# no heading\n```\n"
    text = "".join(part.format(number) for number in range(110))
    assert len(text.encode()) > 200_000
    run = me.start()["id"]
    end(run, text=text)
    pages: list[str] = []
    page: int | None = 1
    while page is not None:
        told = me.structured("get_research", id=run, page=page)
        assert (told["page"], "sources" in told) == (page, page == 1)
        assert len(told["text"]) <= PAGE_SIZE
        pages.append(told["text"])
        page = told["next_page"]
    assert "".join(pages).encode() == run_of(run).report.text.encode() == text.encode()
    assert told["page_count"] == len(pages)
    assert me.error("get_research", id=run, page=len(pages) + 1)["param"] == "page"


def test_it_says_when_a_report_is_cut_short(me: Agent) -> None:
    run = me.start()["id"]
    end(run, "incomplete")
    answer = me.call("get_research", id=run)
    assert answer.structured is not None
    assert answer.structured["status"] == "incomplete"
    assert "cut short" in answer.text


def test_it_tells_why_a_run_failed_and_that_nothing_was_charged(me: Agent) -> None:
    run = me.start()["id"]
    end(run, "failed", error_message="The upstream was away.")
    answer = me.call("get_research", id=run)
    assert not answer.is_error
    assert answer.structured is not None
    assert answer.structured["error"] == {"code": None, "message": "The upstream was away."}
    assert "new idempotency_key" in answer.structured["next_step"]


def test_it_tells_a_replay_of_an_ended_run_where_its_report_is(me: Agent) -> None:
    run = me.start()["id"]
    end(run)
    again = me.start()
    assert (again["id"], again["status"], again["retry_after_seconds"]) == (run, "completed", 0)
    assert "read its report" in again["next_step"]


def test_it_stops_a_run_once_and_not_one_that_has_ended(me: Agent) -> None:
    run = me.start()["id"]
    assert me.structured("cancel_research", id=run)["status"] == "cancelling"
    assert ledger.balance_of(me.who.user_id).available == 10
    error = me.error("cancel_research", id=run)
    assert "ended already" in error["message"]


def test_it_lists_its_own_runs_page_by_page(me: Agent) -> None:
    mine = [me.start(key=str(number))["id"] for number in range(3)]
    agent().start()
    end(mine[0])
    first = me.structured("list_research", limit=2)
    assert [run["id"] for run in first["runs"]] == mine[:0:-1]
    assert (first["has_more"], first["next_after"]) == (True, mine[1])
    rest = me.structured("list_research", limit=2, after=first["next_after"])
    assert [run["id"] for run in rest["runs"]] == [mine[0]]
    assert rest["next_after"] is None
    done = me.structured("list_research", status="completed")
    assert [(run["id"], run["status"]) for run in done["runs"]] == [(mine[0], "completed")]
    assert me.structured("list_research", status="failed")["runs"] == []


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"status": "done"}, "status"),
        ({"limit": "x"}, "limit"),
    ],
)
def test_it_refuses_lists_that_there_are_not(me: Agent, arguments: dict[str, Any], param: str) -> None:
    assert me.error("list_research", **arguments)["param"] == param


@pytest.mark.parametrize("name", ["get_research", "cancel_research"])
def test_it_answers_for_what_others_have_as_for_what_there_is_not(me: Agent, name: str) -> None:
    theirs = agent().start()["id"]
    deleted = me.start()["id"]
    Run.objects.filter(pk=run_of(deleted).pk).update(hidden_at=timezone.now())
    answers = [me.call(name, id=run) for run in (theirs, deleted, "resp_" + "0" * 32, "nonsense")]
    assert all(answer.is_error for answer in answers)
    assert len({answer.text for answer in answers}) == 1
    assert me.error("list_research", after=theirs)["code"] == "not_found"


def test_it_reads_no_report_of_others(me: Agent) -> None:
    theirs, mine = agent().start()["id"], me.start()["id"]
    end(theirs, text="Theirs.")
    end(mine, text="Mine.")

    def read(run: str) -> str:
        return async_to_sync(read_report)(me.who, run)

    assert "Mine." in read(mine)
    refused = []
    for run in (theirs, "resp_" + "0" * 32, "nonsense"):
        with pytest.raises(Problem) as caught:
            read(run)
        refused.append((caught.value.status, caught.value.code, caught.value.message))
    assert len(set(refused)) == 1


def test_it_needs_the_scope_of_its_tool(me: Agent) -> None:
    without = Agent(replace(me.who, scopes=frozenset({"mcp", "chat"})))
    error = without.error("start_research", question="Why?", idempotency_key="k")
    assert error["code"] == "forbidden"
    assert not Run.objects.exists()


def test_it_says_that_there_is_no_such_preset_any_more(me: Agent) -> None:
    Preset.objects.filter(name="60m").update(enabled=False)
    error = me.error("start_research", question="Why?", idempotency_key="k", preset="60m")
    assert error["param"] == "preset"
    assert "2m, 5m, 10m, 30m" in error["message"]
