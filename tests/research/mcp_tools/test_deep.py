"""`pplx_deep_research_*` over our own runs (mcp-deep-research §§1-4, 6)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from portal.api.threads import run_in_database
from portal.api.tools import Tell, call_tool
from portal.live.ending import Ending
from portal.services import ledger
from portal.wire.tools import ToolResult
from research.mcp_tools import waiting
from research.models.reports import Report
from research.models.runs import Run
from tests.research.api.callers import end, run_of
from tests.research.mcp_tools.calling import DOORS, Agent, agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def me() -> Agent:
    return agent()


def submitted(me: Agent, **more: Any) -> str:
    answer = me.call("pplx_deep_research_start", **{"query": "Why is the sky blue?", **more})
    assert not answer.is_error, answer.text
    [line] = [line for line in answer.text.splitlines() if line.startswith("Job id: ")]
    return line.removeprefix("Job id: ")


@pytest.mark.parametrize(
    ("effort", "preset", "price", "budget"),
    [("minimal", "2m", 1, 1800), ("low", "5m", 1, 1800), (None, "10m", 1, 1800), ("high", "30m", 2, 1800)],
)
def test_it_keeps_the_price_of_an_effort_and_gives_it_time(
    me: Agent, effort: str | None, preset: str, price: int, budget: int
) -> None:
    run = run_of(submitted(me, **({"reasoning_effort": effort} if effort else {})))
    assert (run.preset, run.price, run.time_budget) == (preset, price, budget)


def test_it_says_what_to_call_next(me: Agent) -> None:
    answer = me.call("pplx_deep_research_start", query="Why?", reasoning_effort="low")
    job = Run.objects.get().public_id
    for words in (job, "CREATED", "low", "2 to 20 minutes", '"wait_seconds": 40', "7 days"):
        assert words in answer.text
    assert answer.structured is None


def test_it_passes_every_option_on(me: Agent) -> None:
    run = run_of(
        submitted(
            me,
            search_mode="academic",
            search_domain_filter=["-pinterest.com"],
            search_after_date_filter="1/2/2026",
            system_prompt="Be brief.",
        )
    )
    options = run.options
    assert options["search_mode"] == "academic"
    assert options["domains"] == ["-pinterest.com"]
    assert options["after_date"] == "01/02/2026"
    assert options["instructions"] == "Be brief."


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({}, "query"),
        ({"query": "  "}, "query"),
        ({"query": ["Why?"]}, "query"),
        ({"query": "Why?", "reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"query": "Why?", "search_mode": "images"}, "search_mode"),
        ({"query": "Why?", "search_recency_filter": "decade"}, "search_recency_filter"),
        ({"query": "Why?", "search_domain_filter": ["a.org"] * 11}, "search_domain_filter"),
        ({"query": "Why?", "search_domain_filter": ["a b"]}, "search_domain_filter[0]"),
        ({"query": "Why?", "search_after_date_filter": "2026-01-02"}, "search_after_date_filter"),
        ({"query": "Why?", "search_after_date_filter": "02/30/2026"}, "search_after_date_filter"),
        ({"query": "Why?", "system_prompt": 7}, "system_prompt"),
        ({"query": "Why?", "idempotency_key": "k"}, "idempotency_key"),
    ],
)
def test_it_names_the_argument_that_is_wrong(me: Agent, arguments: dict[str, Any], param: str) -> None:
    assert me.error("pplx_deep_research_start", **arguments)["param"] == param
    assert not Run.objects.exists()


def test_it_takes_an_empty_list_of_domains_for_none(me: Agent) -> None:
    assert run_of(submitted(me, search_domain_filter=[])).options["domains"] == []


def test_it_tells_at_once_that_credits_are_missing(me: Agent) -> None:
    poor = agent(credits=0)
    answer = poor.call("pplx_deep_research_start", query="Why?")
    assert answer.is_error
    assert "credit" in answer.text
    assert ledger.balance_of(poor.who.user_id).available == 0


def test_it_tells_how_long_a_job_has_run(me: Agent) -> None:
    answer = me.call("pplx_deep_research_check", job_id=submitted(me))
    assert not answer.is_error
    assert "CREATED" in answer.text
    assert "Elapsed: 0m" in answer.text
    assert "call pplx_deep_research_check again" in answer.text.replace("Call", "call")


def test_it_gives_a_finished_report_with_its_sources_and_cost(me: Agent) -> None:
    job = submitted(me)
    end(job, text="It scatters [1].")
    Report.objects.update(thinking="Hm.")
    answer = me.call("pplx_deep_research_check", job_id=job)
    for words in (
        "Model: m",
        "Elapsed: 0m",
        "Cost: $0.0123",
        "It scatters [1].",
        "[1] [A](https://a.org)",
    ):
        assert words in answer.text
    assert "Hm." not in answer.text
    whole = me.call("pplx_deep_research_check", job_id=job, strip_thinking=False)
    assert "<think>\nHm.\n</think>" in whole.text


def test_it_marks_sources_that_were_only_recovered(me: Agent) -> None:
    job = submitted(me)
    end(job, text="See https://b.org/x. And https://b.org/x")
    Report.objects.update(
        sources=[{"number": 1, "url": "https://b.org/x", "title": "", "provenance": "recovered"}]
    )
    answer = me.call("pplx_deep_research_check", job_id=job)
    assert "recovered from the report text" in answer.text
    assert answer.text.count("\n[1] https://b.org/x") == 1
    assert "[2]" not in answer.text


def test_it_tells_why_a_job_failed(me: Agent) -> None:
    job, stopped = submitted(me), submitted(me)
    end(job, "failed", error_message="Out of steam.")
    end(stopped, "cancelled")
    answer = me.call("pplx_deep_research_check", job_id=job)
    assert answer.is_error
    assert "Out of steam." in answer.text
    assert "narrower" in answer.text
    assert "cancelled" in me.call("pplx_deep_research_check", job_id=stopped).text


def test_it_warns_of_a_report_that_was_cut_short(me: Agent) -> None:
    job = submitted(me)
    end(job, "incomplete")
    answer = me.call("pplx_deep_research_check", job_id=job)
    assert not answer.is_error
    assert "cut short" in answer.text


def test_it_looks_again_until_the_wait_is_over(me: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TELL_SECONDS", 0.05)
    job = submitted(me)
    assert "CREATED" in me.call("pplx_deep_research_check", job_id=job, wait_seconds=0.2).text
    waited = [done for done, _, _ in me.told]
    assert 2 <= len(waited) <= 5
    assert waited == sorted(waited)
    assert {total for _, total, _ in me.told} == {0.2}


async def wait(me: Agent, job: str, tell: Tell) -> ToolResult:
    return await call_tool(
        DOORS["pplx_deep_research_check"], me.who, {"job_id": job, "wait_seconds": 40}, tell
    )


def test_it_comes_back_when_the_job_ends_while_it_waits(me: Agent) -> None:
    job = submitted(me)
    told: list[str] = []

    async def tell(done: float, total: float | None, words: str) -> None:
        if not told:
            await run_in_database(partial(end, job, event_seq=2))
        told.append(words)

    assert "It scatters" in asyncio.run(wait(me, job, tell)).text
    assert len(told) == 1


def test_it_ends_a_wait_when_the_server_is_about_to_stop(me: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending()
    told: list[str] = []
    monkeypatch.setattr(waiting, "of_server", ending)

    async def tell(done: float, total: float | None, words: str) -> None:
        ending.begin()
        told.append(words)

    answer = asyncio.run(wait(me, submitted(me), tell))
    assert "Call pplx_deep_research_check again" in answer.text
    assert len(told) == 1


def test_it_comes_back_at_once_when_the_job_has_ended(me: Agent) -> None:
    job = submitted(me)
    end(job)
    assert "It scatters" in me.call("pplx_deep_research_check", job_id=job, wait_seconds=40).text
    assert me.told == []


def test_it_knows_no_job_of_others(me: Agent) -> None:
    theirs = submitted(agent())
    answers = [me.call("pplx_deep_research_check", job_id=job) for job in (theirs, "resp_" + "0" * 32, "x")]
    assert all(answer.is_error for answer in answers)
    assert len({answer.text for answer in answers}) == 1


def test_it_lists_its_jobs(me: Agent) -> None:
    assert "no deep research jobs." in me.call("pplx_deep_research_list").text
    first, second = submitted(me), submitted(me)
    submitted(agent())
    end(first)
    text = me.call("pplx_deep_research_list").text
    assert text.index(second) < text.index(first)
    assert "2 jobs" in text
    assert "| job_id | status | model | created (UTC) |" in text
    done = me.call("pplx_deep_research_list", status="COMPLETED", limit=1).text
    assert first in done
    assert second not in done
    assert "with the status FAILED" in me.call("pplx_deep_research_list", status="FAILED").text
    assert me.error("pplx_deep_research_list", status="completed")["param"] == "status"
    assert me.error("pplx_deep_research_list", limit=101)["param"] == "limit"


def test_it_waits_for_a_report_and_else_gives_the_id(me: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """`perplexity_research` (SPEC 10.26)."""
    monkeypatch.setattr("research.mcp_tools.answering.WAIT_SECONDS", 0.05)
    told = me.structured("perplexity_research", query="Why?", language="de-DE")
    run = Run.objects.get()
    assert (told["id"], told["status"], told["text"]) == (run.public_id, "in_progress", None)
    assert run.options["language"] == "de-DE"
    assert "get_research" in told["next_step"]
    assert me.error("perplexity_research", query="")["param"] == "query"
    assert me.error("perplexity_research", query="Why?", language="!!")["param"] == "language"
