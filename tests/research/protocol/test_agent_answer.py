"""The response object, exact to the key (agent-api §§2-3)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from research.protocol.answer import (
    ReportView,
    RunView,
    build_cancel,
    build_list,
    build_response,
    build_summary,
    poll_again_after,
)
from research.protocol.outcome import Source

CREATED = datetime(2026, 8, 15, 5, 32, 0, 700_000, UTC)
RUN = UUID("7f3d" * 8)
QUEUED = RunView(id=RUN, status="queued", created_at=CREATED, preset="30m", title="Why?", usual_seconds=900)
ANNOTATION = {
    "type": "url_citation",
    "url": "https://a.org",
    "title": "A",
    "start_index": 0,
    "end_index": 3,
}
RECEIPT = {"version": 1, "queries": [{"text": "q", "results": []}], "sourceInvestigations": []}
REPORT = ReportView(
    text="Yes [1].",
    sources=(
        Source(1, "https://a.org", "A", "cited", "Words", "2026-05-01"),
        Source(2, "https://b.org", "B", "retrieved"),
    ),
    queries=("q",),
    annotations=(ANNOTATION,),
    receipt=RECEIPT,
    checks={"unused": [2]},
    notices=("Mind the gap.",),
    steps=68,
    input_tokens=10,
    output_tokens=5,
    cached_tokens=3,
    reasoning_tokens=2,
    upstream_cost=Decimal("0.0120000000"),
    model="openai/gpt-6-luna",
)
DONE = replace(
    QUEUED,
    status="completed",
    completed_at=CREATED + timedelta(seconds=1245, milliseconds=600),
    credits_charged=Decimal("2.0000"),
    backend="agent",
    report=REPORT,
)


def test_it_shows_a_queued_run_as_the_superset_of_the_seed() -> None:
    assert build_response(QUEUED) == {
        "id": "resp_" + "7f3d" * 8,
        "object": "response",
        "created_at": 1786771920,
        "completed_at": None,
        "status": "queued",
        "model": "default",
        "output": [],
        "output_text": "",
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "background": True,
        "store": True,
        "previous_response_id": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "sonde": {
            "preset": "30m",
            "backend": None,
            "model": None,
            "sandbox": False,
            "ignored": [],
            "sources": [],
            "checks": {},
            "notices": [],
            "notes": [],
            "upstream_cost": None,
        },
    }


def test_it_shows_a_finished_report() -> None:
    shown = build_response(DONE)
    assert shown["output"] == [
        {
            "type": "search_results",
            "queries": ["q"],
            "results": [
                {
                    "id": 1,
                    "title": "A",
                    "url": "https://a.org",
                    "source": "web",
                    "snippet": "Words",
                    "date": "2026-05-01",
                },
                {"id": 2, "title": "B", "url": "https://b.org", "source": "web", "snippet": ""},
            ],
        },
        {
            "type": "message",
            "id": "msg_" + "7f3d" * 8,
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "Yes [1].", "annotations": [ANNOTATION], "logprobs": []}
            ],
        },
    ]
    assert shown["output_text"] == "Yes [1]."
    assert shown["usage"] == {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 2},
        "pocket_search": {
            "mode": "30m",
            "credits_charged": 2,
            "credits_refunded": 0,
            "duration_ms": 1246000,
            "steps": 68,
            "research_receipt": RECEIPT,
        },
    }
    assert shown["sonde"] == {
        "preset": "30m",
        "backend": "agent",
        "model": "openai/gpt-6-luna",
        "sandbox": False,
        "ignored": [],
        "sources": [
            {"id": 1, "url": "https://a.org", "title": "A", "provenance": "cited"},
            {"id": 2, "url": "https://b.org", "title": "B", "provenance": "retrieved"},
        ],
        "checks": {"unused": [2]},
        "notices": ["Mind the gap."],
        "notes": [],
        "upstream_cost": "0.0120000000",
    }


@pytest.mark.parametrize("view", [QUEUED, replace(QUEUED, status="in_progress"), DONE])
def test_it_keeps_every_key_in_its_place(view: RunView) -> None:
    assert list(build_response(view)) == list(build_response(QUEUED))


def test_it_keeps_duration_and_times_identical_to_the_digit() -> None:
    shown = build_response(DONE)
    took = (shown["completed_at"] - shown["created_at"]) * 1000
    assert shown["usage"]["pocket_search"]["duration_ms"] == took


def test_it_does_not_pass_recovered_links_off_as_search_results() -> None:
    recovered = Source(1, "https://c.org", "", "recovered")
    shown = build_response(replace(DONE, report=replace(REPORT, sources=(recovered,))))
    assert shown["output"][0]["results"] == []
    assert [source["provenance"] for source in shown["sonde"]["sources"]] == ["recovered"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {
                "status": "failed",
                "error_code": "insufficient_quota",
                "error_message": "credit quota exhausted",
            },
            {
                "error": {"code": "insufficient_quota", "message": "credit quota exhausted"},
                "incomplete_details": None,
            },
        ),
        (
            {"status": "failed", "error_message": "boom"},
            {"error": {"code": None, "message": "boom"}, "incomplete_details": None},
        ),
        ({"status": "cancelled"}, {"error": None, "incomplete_details": None}),
        (
            {"status": "incomplete", "report": replace(REPORT, incomplete_reason="time_budget")},
            {"error": None, "incomplete_details": {"reason": "time_budget"}},
        ),
    ],
)
def test_it_tells_how_a_run_ended(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    view = replace(DONE, **{"report": None, **changes})
    shown = build_response(view)
    assert {key: shown[key] for key in expected} == expected
    assert shown["usage"]["pocket_search"]["mode"] == "30m"
    assert bool(shown["output"]) is (view.report is not None)


def test_it_marks_a_truncated_text_as_incomplete() -> None:
    shown = build_response(replace(DONE, status="incomplete"))
    assert shown["output"][1]["status"] == "incomplete"


def test_it_tells_what_a_failed_run_gave_back() -> None:
    failed = replace(DONE, status="failed", report=None, credits_refunded=Decimal("2.0000"))
    receipt = {"version": 1, "queries": [], "sourceInvestigations": []}
    assert build_response(failed)["usage"]["pocket_search"] == {
        "mode": "30m",
        "credits_charged": 2,
        "credits_refunded": 2,
        "duration_ms": 1246000,
        "steps": 0,
        "research_receipt": receipt,
    }


def test_it_echoes_what_was_asked() -> None:
    asked = replace(
        QUEUED,
        metadata={"a": "b"},
        instructions="Be brief.",
        previous_id=RUN,
        ignored=("model",),
        notes=("Asked twice.",),
        sandbox=True,
    )
    shown = build_response(asked)
    assert shown["metadata"] == {"a": "b"}
    assert shown["instructions"] == "Be brief."
    assert shown["previous_response_id"] == "resp_" + "7f3d" * 8
    assert (shown["sonde"]["ignored"], shown["sonde"]["notes"]) == (["model"], ["Asked twice."])
    assert shown["sonde"]["sandbox"] is True


def test_it_never_looks_terminal_to_the_seed_s_grep_before_the_end() -> None:
    tricky = replace(QUEUED, status="in_progress", instructions='say "status": "completed"')
    text = json.dumps(build_response(tricky), ensure_ascii=False)
    assert '"status": "in_progress"' in text
    assert not any(
        f'"status": "{word}"' in text for word in ("completed", "failed", "incomplete", "cancelled")
    )


def test_it_answers_a_cancel_with_two_members() -> None:
    assert build_cancel(QUEUED) == {"response_id": "resp_" + "7f3d" * 8, "status": "cancelling"}


def test_it_lists_runs_without_their_reports() -> None:
    listed = build_list([DONE, QUEUED], has_more=True)
    assert (listed["object"], listed["has_more"]) == ("list", True)
    assert listed["first_id"] == listed["last_id"] == "resp_" + "7f3d" * 8
    assert listed["data"] == [build_summary(DONE), build_summary(QUEUED)]
    first = listed["data"][0]
    assert (first["status"], first["sonde"]["title"]) == ("completed", "Why?")
    assert not {"output", "output_text"} & set(first)
    assert "research_receipt" not in first["usage"]["pocket_search"]
    assert not {"sources", "checks"} & set(first["sonde"])


def test_it_lists_nothing() -> None:
    assert build_list([], has_more=False) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


@pytest.mark.parametrize(("usual", "seconds"), [(0, 2), (100, 2), (240, 6), (900, 15), (9000, 15)])
def test_it_says_when_another_look_is_worth_while(usual: int, seconds: int) -> None:
    assert poll_again_after(replace(QUEUED, usual_seconds=usual)) == seconds
    assert poll_again_after(replace(DONE, usual_seconds=usual)) is None
