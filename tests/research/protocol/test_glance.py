"""A glance at a job says what reading it in full would say, or nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.glance import goes_on_silently
from research.protocol.outcome import Running
from research.protocol.wire_agent import parse_snapshot

SILENT: dict[str, Any] = {"id": "resp_1", "status": "in_progress", "output": [], "usage": None}
TOLD = {"type": "message", "content": [{"type": "output_text", "text": "So far"}]}
SMALL = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
STATUSES = st.sampled_from(["queued", "in_progress", "IN_PROGRESS", "completed", "failed", "paused", ""])


@pytest.mark.parametrize(
    "job",
    [
        SILENT,
        {**SILENT, "status": "queued"},
        {"status": "in_progress"},
        {**SILENT, "output": None},
        {**SILENT, "model": 'a model, with [] and "output":[1] in its name', "created_at": 1.5e300},
    ],
)
def test_it_knows_a_job_that_goes_on_and_shows_nothing(job: dict[str, Any]) -> None:
    assert goes_on_silently(json.dumps(job).encode())


@pytest.mark.parametrize(
    "job",
    [
        {**SILENT, "output": [TOLD]},
        {**SILENT, "output": {}},
        {**SILENT, "status": "completed"},
        {**SILENT, "status": "paused"},
        {**SILENT, "status": None},
        {**SILENT, "status": 3},
        [SILENT],
        None,
    ],
)
def test_it_leaves_all_else_to_be_read_in_full(job: object) -> None:
    assert not goes_on_silently(json.dumps(job).encode())


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<html>", b'{"status":"in_progress"', b'{"status":"queued"}]', b"\xff"]
)
def test_it_leaves_what_is_no_json(body: bytes) -> None:
    assert not goes_on_silently(body)


@given(
    st.dictionaries(st.text(max_size=8), SMALL, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.one_of(STATUSES, SMALL),
            "output": st.one_of(st.just([]), SMALL, st.just([TOLD])),
        },
    ),
)
def test_it_never_says_other_than_the_whole_does(more: dict[str, Any], job: dict[str, Any]) -> None:
    body = json.dumps({**more, **job}).encode()
    if goes_on_silently(body):
        assert parse_snapshot(200, {}, body, datetime.now(UTC)) == Running()
