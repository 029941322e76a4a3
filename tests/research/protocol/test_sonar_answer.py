from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from perplexity.types.async_.chat.completion_get_response import CompletionGetResponse
from perplexity.types.async_.chat.completion_list_response import CompletionListResponse
from pydantic import TypeAdapter

from research.protocol.answer import ReportView, RunView
from research.protocol.outcome import Finished, Source
from research.protocol.report import build_report
from research.protocol.sonar_answer import UNKNOWN, build_job, build_job_summary, build_jobs
from research.protocol.wire_sonar import parse_snapshot

JOB: TypeAdapter[CompletionGetResponse] = TypeAdapter(CompletionGetResponse)
JOBS: TypeAdapter[CompletionListResponse] = TypeAdapter(CompletionListResponse)
RUN = UUID("7f3d" * 8)
AT = datetime(2026, 9, 28, 14, 0, 0, tzinfo=UTC)
REPORT = ReportView(
    "It scatters [1]; see [2].",
    sources=(
        Source(1, "https://a.org", "A", "cited", "blue light", "2026-05-01"),
        Source(2, "https://b.org", "B", "retrieved"),
    ),
    queries=("why blue", "rayleigh"),
    input_tokens=3,
    output_tokens=4,
    reasoning_tokens=5,
    upstream_cost=Decimal("0.4172"),
    model="sonar-deep-research",
)
WAITING = RunView(RUN, "queued", AT, "10m")
DONE = replace(
    WAITING,
    status="completed",
    submitted_at=AT.replace(second=2),
    completed_at=AT.replace(minute=5),
    report=REPORT,
)


def with_report(**changes: Any) -> RunView:
    return replace(DONE, report=replace(REPORT, **changes))


def message_of(view: RunView) -> str:
    text: str = build_job(view)["response"]["choices"][0]["message"]["content"]
    return text


def urls(view: RunView) -> list[str]:
    found: list[str] = build_job(view)["response"]["citations"]
    return found


@pytest.mark.parametrize(
    ("view", "status"),
    [
        (WAITING, "CREATED"),
        (replace(WAITING, status="in_progress"), "IN_PROGRESS"),
        (DONE, "COMPLETED"),
        (replace(DONE, status="incomplete"), "COMPLETED"),
        (replace(DONE, status="failed", report=None, error_message="It broke."), "FAILED"),
        (replace(DONE, status="cancelled", report=None), "FAILED"),
    ],
)
def test_it_tells_each_state_in_sonar_s_words_and_types(view: RunView, status: str) -> None:
    job = build_job(view)
    assert job["status"] == status
    JOB.validate_python(job, strict=True)
    JOBS.validate_python(build_jobs([view], has_more=True), strict=True)


def test_it_waits_with_nothing_to_show() -> None:
    job = build_job(WAITING)
    assert job["id"] == "resp_" + "7f3d" * 8
    assert job["model"] == "sonar-deep-research"
    assert job["created_at"] == 1790604000
    blank = ("started_at", "completed_at", "failed_at", "error_message", "response")
    assert [job[name] for name in blank] == [None] * 5


def test_it_tells_the_times_of_a_job_that_completed() -> None:
    job = build_job_summary(DONE)
    assert (job["started_at"], job["completed_at"], job["failed_at"]) == (1790604002, 1790604300, None)


def test_it_tells_when_and_why_a_job_failed() -> None:
    job = build_job(replace(DONE, status="failed", report=None, error_message="It broke."))
    assert (job["completed_at"], job["failed_at"], job["error_message"]) == (None, 1790604300, "It broke.")


@pytest.mark.parametrize(
    ("status", "words"), [("failed", "The run failed."), ("cancelled", "The run was stopped.")]
)
def test_it_always_gives_a_reason(status: str, words: str) -> None:
    assert build_job(replace(DONE, status=status, report=None))["error_message"] == words


def test_it_gives_the_report_as_a_completion() -> None:
    response = build_job(DONE)["response"]
    assert response["object"] == "chat.completion"
    assert response["choices"] == [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": REPORT.text},
            "delta": {"role": "assistant", "content": ""},
        }
    ]
    assert response["citations"] == ["https://a.org", "https://b.org"]
    assert response["search_results"][0] == {
        "title": "A",
        "url": "https://a.org",
        "date": "2026-05-01",
        "last_updated": None,
        "snippet": "blue light",
        "source": "web",
    }


def test_it_counts_what_was_used_and_what_it_cost() -> None:
    usage = build_job(DONE)["response"]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 4, 7)
    assert (usage["reasoning_tokens"], usage["num_search_queries"]) == (5, 2)
    assert (usage["cost"]["request_cost"], usage["cost"]["total_cost"]) == (0.4172, 0.4172)


def test_it_counts_searches_as_the_upstream_did() -> None:
    assert build_job(with_report(searches=8, queries=()))["response"]["usage"]["num_search_queries"] == 8


def test_it_says_that_a_cost_is_unknown() -> None:
    job = build_job(with_report(upstream_cost=None))
    assert job["response"]["usage"]["cost"]["total_cost"] == 0
    assert job["sonde"]["upstream_cost"] is None


def test_it_puts_thinking_before_the_report() -> None:
    assert message_of(with_report(thinking="Hm.")) == f"<think>\nHm.\n</think>\n\n{REPORT.text}"


def test_it_tells_a_report_that_was_cut_short() -> None:
    job = build_job(replace(DONE, status="incomplete"))
    assert job["response"]["choices"][0]["finish_reason"] == "length"


def test_it_cites_no_links_that_were_only_recovered() -> None:
    recovered = Source(1, "https://c.org", "C", "recovered")
    view = with_report(sources=(recovered,))
    assert (urls(view), build_job(view)["response"]["search_results"]) == ([], [])


def cited(text: str, mark: str, url: str) -> dict[str, Any]:
    start = text.index(mark)
    return {
        "type": "url_citation",
        "url": url,
        "title": "",
        "start_index": start,
        "end_index": start + len(mark),
    }


def test_it_keeps_the_places_that_marks_count_by() -> None:
    sources = (Source(1, "https://a.org", "A", "cited"), Source(3, "https://c.org", "C", "cited"))
    assert urls(with_report(sources=sources)) == ["https://a.org", "", "https://c.org"]
    assert build_job(with_report(sources=sources))["response"]["search_results"][1]["title"] == UNKNOWN


def test_it_repeats_a_page_that_two_numbers_mean() -> None:
    text = "One [1], two [2], three [3]."
    sources = (Source(1, "https://a.org", "A", "cited"), Source(3, "https://c.org", "C", "cited"))
    view = with_report(text=text, sources=sources, annotations=(cited(text, "[2]", "https://a.org"),))
    assert urls(view) == ["https://a.org", "https://a.org", "https://c.org"]


def test_it_makes_no_long_list_of_few_sources() -> None:
    assert urls(with_report(sources=(Source(10**9, "https://a.org", "A", "cited"),))) == ["https://a.org"]


def test_it_is_read_by_a_portal_whose_upstream_it_is() -> None:
    read = parse_snapshot(200, {}, json.dumps(build_job(with_report(thinking="Hm."))).encode(), AT)
    assert isinstance(read, Finished)
    built = build_report(read)
    assert (built.text, built.thinking) == (REPORT.text, "Hm.")
    assert [(source.number, source.url) for source in built.sources] == [
        (1, "https://a.org"),
        (2, "https://b.org"),
    ]
    assert (read.usage.cost, read.usage.searches) == (Decimal("0.4172"), 2)


def test_it_goes_on_after_the_last_of_a_page() -> None:
    assert build_jobs([DONE], has_more=True)["next_token"] == "resp_" + "7f3d" * 8
    assert build_jobs([DONE], has_more=False)["next_token"] is None
    assert build_jobs([], has_more=False) == {"requests": [], "next_token": None}
