from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.responses_stream import Event
from research.protocol.answer import ReportView, RunView
from research.protocol.outcome import Source
from research.protocol.run_stream import PIECE, LogRow, RunStream
from tests.proxy.protocol.response_events import check, read

CITATION = {
    "type": "url_citation",
    "url": "https://a.example",
    "title": "Harbour",
    "start_index": 0,
    "end_index": 7,
}
RUN = RunView(
    id=UUID(int=7),
    status="completed",
    created_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
    completed_at=datetime(2026, 11, 30, 12, 20, tzinfo=UTC),
    preset="30m",
    metadata={"job": "7"},
    instructions="Be brief.",
    credits_charged=Decimal(2),
    backend="agent",
    ignored=("top_p",),
    notes=("sonar refused the run",),
    report=ReportView(
        text="# Tides 🌊\n" + "High tide is at 06:40. " * 60,
        sources=(Source(1, "https://a.example", "Harbour", "cited"),),
        annotations=(CITATION,),
        model="m",
    ),
)  # fmt: skip
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("queued", {}),
    ("submitting", {"backend": "sonar", "again": False}),
    ("waiting", {"seconds": 4, "why": "Too many\nrequests."}),
    ("submitting", {"backend": "sonar", "again": True}),
    ("failover", {"from": "sonar", "to": "agent", "why": "It is retired."}),
    ("submitting", {"backend": "agent"}),
    ("running", {"backend": "agent"}),
    ("progress", {"goals": ["Find the table"], "queries": ["tides", "harbour"], "pages": []}),
    ("progress", {"queries": [], "pages": [{"url": "https://a.example", "title": "The\n Harbour"}]}),
    ("progress", {"queries": [], "pages": [{"url": "https://b.example", "title": ""}], "percent": 40}),
    ("progress", {"queries": [], "pages": [], "characters": 1234}),
    ("progress", {"queries": [], "pages": [], "characters": 0, "percent": 90}),
    ("trouble", {"why": "No connection."}),
    ("stop_requested", {}),
    ("stopping", {"reason": "budget"}),
    ("something_new", {}),
    ("completed", {}),
]
LOG = [LogRow(seq, kind, data) for seq, (kind, data) in enumerate(KINDS, 1)]


def whole(run: RunView = RUN, log: list[LogRow] = LOG) -> list[Event]:
    stream = RunStream(run)
    return [*stream.open(), *stream.read(log), *stream.end(run)]


def types_of(events: list[Event]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


def test_it_tells_a_run_in_the_order_of_the_reference() -> None:
    payloads = check(whole())
    assert [kind for kind in types_of(whole()) if not kind.endswith(".delta")] == [
        "created",
        "queued",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [item["type"] for item in payloads[-1]["response"]["output"]] == ["reasoning", "message"]


def test_it_says_what_happened_in_words() -> None:
    [thoughts, _] = read(whole())[-1]["response"]["output"]
    assert thoughts["summary"][0]["text"].splitlines() == [
        "Handing the question to Perplexity’s Sonar API",
        "Trying again in 4 seconds: Too many requests.",
        "Handing the question to Perplexity’s Sonar API once more, since the first"
        " attempt may not have arrived",
        "Perplexity’s Sonar API could not take it: It is retired.",
        "Trying Perplexity’s Agent API",
        "Handing the question to Perplexity’s Agent API",
        "Perplexity’s Agent API has begun the research",
        "Find the table",
        "Searching: tides",
        "Searching: harbour",
        "Found: [The Harbour](https://a.example)",
        "Found: [https://b.example](https://b.example)",
        "Writing: 1,234 characters so far",
        "90 % done",
        "No answer, asking again: No connection.",
        "Stop requested",
        "The time budget is spent: asking for what is written so far",
        "Something new",
    ]  # fmt: skip


def test_it_delivers_the_report_in_pieces_with_its_citations() -> None:
    payloads = read(whole())
    assert RUN.report is not None
    deltas = [one["delta"] for one in payloads if one["type"] == "response.output_text.delta"]
    assert "".join(deltas) == RUN.report.text
    assert {len(delta) for delta in deltas[:-1]} == {PIECE}
    response = payloads[-1]["response"]
    assert response["output"][1]["content"][0]["annotations"] == list(RUN.report.annotations)
    assert response["sonde"]["sources"][0]["url"] == "https://a.example"
    assert response["usage"]["pocket_search"]["credits_charged"] == 2
    assert response["output_text"] == RUN.report.text


def test_it_shows_nothing_early_that_may_still_change() -> None:
    """Whoever reads the same run before, while and after it changes gets the same beginning."""
    young = replace(RUN, status="queued", completed_at=None, credits_charged=Decimal(0), backend="", notes=(),
                    ignored=(), report=None, sandbox=True, usual_seconds=9)  # fmt: skip
    before, after = RunStream(young), RunStream(RUN)
    assert [*before.open(), *before.read(LOG)] == [*after.open(), *after.read(LOG)]
    early = read(RunStream(RUN).open())[0]["response"]
    assert (early["status"], early["output"], early["usage"]) == ("queued", [], None)
    assert (early["metadata"], early["instructions"]) == ({"job": "7"}, "Be brief.")
    assert "sonde" not in early


@pytest.mark.parametrize(
    ("status", "changes", "last"),
    [
        (
            "incomplete",
            {"report": ReportView("High tide.", incomplete_reason="max_output_tokens")},
            "response.incomplete",
        ),
        ("failed", {"report": None, "error_code": "server_error", "error_message": "No."}, "response.failed"),
        ("cancelled", {"report": None}, "response.incomplete"),
    ],
)
def test_it_ends_each_way_with_one_terminal_event(status: str, changes: dict[str, Any], last: str) -> None:
    payloads = check(whole(replace(RUN, status=status, **changes)))
    assert payloads[-1]["type"] == last
    assert payloads[-1]["response"]["status"] == status


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        ("incomplete", {"report": ReportView("High tide.", incomplete_reason="time_budget")}),
        ("failed", {"report": None, "error_code": "insufficient_quota", "error_message": "No."}),
        ("failed", {"report": None, "error_message": "No."}),
    ],
)
def test_it_says_some_things_in_the_words_of_the_research_api(status: str, changes: dict[str, Any]) -> None:
    check(whole(replace(RUN, status=status, **changes)), profile="agent")


@pytest.mark.parametrize(
    "log", [["admission_refused"], ["queued", "stop_requested", "cancelled"], ["queued", "failed"], []]
)
def test_it_tells_a_run_that_nobody_began_without_progress(log: list[str]) -> None:
    run = replace(RUN, status="failed", report=None, error_code="server_error", error_message="No.")
    rows = [LogRow(seq, kind, {}) for seq, kind in enumerate(log, 1)]
    assert types_of(whole(run, rows)) == ["created", "queued", "failed"]


def test_it_tells_an_empty_log_and_a_report_with_the_message_alone() -> None:
    payloads = check(whole(log=[]))
    assert [item["type"] for item in payloads[-1]["response"]["output"]] == ["message"]


@given(st.lists(st.sampled_from(KINDS), max_size=20), st.lists(st.integers(0, 20), max_size=5))
def test_it_makes_the_same_bytes_however_the_rows_come_in(
    kinds: list[tuple[str, dict[str, Any]]], cuts: list[int]
) -> None:
    log = [LogRow(seq, kind, data) for seq, (kind, data) in enumerate(kinds, 1)]
    stream, bounds = RunStream(RUN), sorted({0, *cuts, len(log)})
    events = stream.open()
    for start, stop in pairwise(bounds):
        events += stream.read(log[start:stop])
    events += stream.end(RUN)
    assert events == whole(log=log)
    check(events)
