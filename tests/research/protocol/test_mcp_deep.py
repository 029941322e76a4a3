"""The texts of the `pplx_*` tools (mcp-deep-research §§2, 3, 6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.fields import Fields
from research.protocol.mcp_deep import (
    Job,
    JobSource,
    checked_text,
    listed_text,
    read_check,
    recovered_urls,
    started_text,
    without_thinking,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def text_of(job: Job, *, strip_thinking: bool = True) -> str:
    return checked_text(job, NOW, strip_thinking=strip_thinking).text


def done(text: str | None = "It scatters.", **more: Any) -> Job:
    return Job("job-1", "COMPLETED", text=text, **more)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (40, 40),
        (41, 40),
        (-1, 0),
        ("abc", 0),
        (0.5, 0.5),
        (None, 0),
        (True, 0),
        (float("nan"), 0),
        (1e99, 40),
    ],
)
def test_it_brings_every_wait_into_its_bounds(value: object, seconds: float) -> None:
    assert read_check(Fields({"job_id": "j", "wait_seconds": value})).wait_seconds == seconds


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>Hm.</think>\nIt scatters.", "It scatters."),
        ("<think>a</think>x<think>b\nc</think>y", "xy"),
        ("<think>never closed. It scatters.", "<think>never closed. It scatters."),
        ("a <think>b</think> c <think> d", "a  c <think> d"),
        ("no thoughts ", "no thoughts"),
        ("</think>x", "</think>x"),
    ],
)
def test_it_takes_closed_thoughts_out_and_nothing_else(text: str, rest: str) -> None:
    assert without_thinking(text) == rest


@given(st.text(alphabet="<think>/ ab\n"))
def test_it_never_takes_out_what_is_no_thought(text: str) -> None:
    assert "<think>" in text or without_thinking(text) == text.strip()


def test_it_shows_thoughts_to_whoever_wants_them() -> None:
    job = done("<think>Hm.</think>\nIt scatters.")
    assert "Hm." not in text_of(job)
    assert "<think>Hm.</think>\nIt scatters." in text_of(job, strip_thinking=False)


def test_it_tells_everything_in_its_order() -> None:
    job = done(
        model="sonar-deep-research",
        created_at=NOW - timedelta(minutes=9),
        started_at=NOW - timedelta(minutes=8),
        completed_at=NOW - timedelta(seconds=15),
        search_results=(JobSource("https://a.org", "A", "2026-01-01"), JobSource("https://b.org")),
        citations=("https://c.org",),
        queries=8,
        cost=Decimal("0.13456"),
    )
    text = text_of(job)
    parts = [
        "# Deep research result",
        "Job: job-1",
        "Model: sonar-deep-research",
        "Elapsed: 7m 45s",
        "Search queries: 8",
        "Cost: $0.1346",
        "---",
        "It scatters.",
        "## Sources",
        "[1] [A](https://a.org) (2026-01-01)",
        "[2] [https://b.org](https://b.org)",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "https://c.org" not in text


def test_it_falls_back_to_citations() -> None:
    assert "[1] https://c.org" in text_of(done(citations=("https://c.org",)))


def test_it_recovers_addresses_and_says_so() -> None:
    text = text_of(
        done("<think>https://no.org</think>See https://x.org/a. Or (https://x.org/a), https://y.org;")
    )
    assert "recovered from the report text" in text
    assert "[1] https://x.org/a\n[2] https://y.org" in text
    assert "no.org" not in text


def test_it_says_when_there_are_no_sources_at_all() -> None:
    assert "nothing in it is attributed" in text_of(done())


def test_it_finds_each_address_once() -> None:
    text = 'a https://x.org, https://x.org. "https://q.org" [t](http://z.org/p?q=1) <https://w.org> https://x.org'
    assert recovered_urls(text) == ["https://x.org", "https://q.org", "http://z.org/p?q=1", "https://w.org"]


@pytest.mark.parametrize("text", [None, "", "  "])
def test_it_survives_a_report_without_a_body(text: str | None) -> None:
    assert "(empty response body)" in text_of(done(text))


def test_it_tells_a_job_under_way_from_a_problem() -> None:
    job = Job(
        "job-1", "IN_PROGRESS", created_at=NOW - timedelta(minutes=3), started_at=NOW - timedelta(seconds=62)
    )
    answer = checked_text(job, NOW, strip_thinking=True)
    assert not answer.is_error
    assert "IN_PROGRESS" in answer.text
    assert "1m 2s" in answer.text
    assert '"wait_seconds": 40' in answer.text


@pytest.mark.parametrize(
    ("error", "words"), [("Out of steam.", "Out of steam."), ("", "(no error message given)")]
)
def test_it_tells_why_a_job_failed(error: str, words: str) -> None:
    answer = checked_text(Job("job-1", "FAILED", error=error), NOW, strip_thinking=True)
    assert answer.is_error
    assert answer.text.startswith("Error: ")
    assert words in answer.text


def test_it_says_what_was_submitted() -> None:
    text = started_text(Job("job-1", "CREATED", model="sonar-deep-research"), "high").text
    for words in ("job-1", "sonar-deep-research", "CREATED", "high", "2 to 20 minutes", "7 days"):
        assert words in text


def test_it_lists_in_a_table_that_no_name_can_break() -> None:
    text = listed_text([Job("j", "CREATED", model="a|b\nc", created_at=NOW)], None).text
    assert "| j | CREATED | a/b c | 2026-11-30 12:00 |" in text
    assert "1 job," in text
