"""Streams of Responses events: good ones pass, and each check fails what it is there for."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from portal.wire.conformance.checks import faults
from portal.wire.conformance.responses import RESPONSE
from portal.wire.conformance.responses_stream import STREAM, ResponseStream
from portal.wire.sse import SseRecord
from tests.portal.wire.conformance.judging import Change, changed, drop, fails, passes, put
from tests.portal.wire.conformance.response_bodies import (
    CALL,
    CANCELLED,
    CITED,
    FAILED,
    GOOD,
    PART,
    SEARCH,
    SPOKEN,
    TEXT,
    THOUGHT,
    Json,
    response,
)


def _item(index: int, item: Json, begun: Json, *told: tuple[str, Json]) -> list[Json]:
    inside = [
        {"type": f"response.{name}", "item_id": item["id"], "output_index": index, **more}
        for name, more in told
    ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item | begun},
        *inside,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]  # fmt: skip


def _events() -> list[Json]:
    """One of each kind of item, streamed as openai-compat §3.4 has it."""
    begun = GOOD | {"status": "in_progress", "output": [], "completed_at": None, "usage": None}
    summary, content = {"summary_index": 0}, {"content_index": 0}
    note = {"type": "summary_text", "text": ""}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    annotated = {**content, "annotation_index": 0, "annotation": CITED}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *_item(
            0,
            THOUGHT,
            {"summary": []},
            ("reasoning_summary_part.added", {**summary, "part": note}),
            ("reasoning_summary_text.delta", {**summary, "delta": "Look "}),
            ("reasoning_summary_text.delta", {**summary, "delta": "up"}),
            ("reasoning_summary_text.done", {**summary, "text": "Look up"}),
            ("reasoning_summary_part.done", {**summary, "part": THOUGHT["summary"][0]}),
        ),
        *_item(
            1,
            SEARCH,
            {"status": "in_progress"},
            *((f"web_search_call.{name}", {}) for name in ("in_progress", "searching", "completed")),
        ),
        *_item(
            2,
            SPOKEN,
            {"status": "in_progress", "content": []},
            ("content_part.added", {**content, "part": empty}),
            ("output_text.delta", {**content, "delta": "It ", "logprobs": []}),
            ("output_text.delta", {**content, "delta": "rains.", "logprobs": []}),
            ("output_text.annotation.added", annotated),
            ("output_text.done", {**content, "text": TEXT, "logprobs": []}),
            ("content_part.done", {**content, "part": PART}),
        ),
        *_item(
            3,
            CALL,
            {"status": "in_progress", "arguments": ""},
            ("function_call_arguments.delta", {"delta": '{"a":1}'}),
            ("function_call_arguments.done", {"arguments": '{"a":1}', "name": "f"}),
        ),
        {"type": "response.completed", "response": GOOD},
    ]
    return numbered(events)


def numbered(events: list[Json]) -> list[Json]:
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


EVENTS = _events()
FAILING = numbered(
    [*deepcopy(EVENTS[:2]), {"type": "response.failed", "response": FAILED}],
)


def records(events: list[Json]) -> tuple[SseRecord, ...]:
    return tuple(SseRecord(event["type"], json.dumps(event).encode()) for event in events)


def stream(events: list[Json], **known: Any) -> ResponseStream:
    return ResponseStream(records(events), **known)


def at(name: str, *, nth: int = 0) -> int:
    """Where the nth event of this name stands."""
    return [place for place, event in enumerate(EVENTS) if event["type"] == f"response.{name}"][nth]


def without(*names: str) -> list[Json]:
    return numbered([event for event in EVENTS if event["type"].removeprefix("response.") not in names])


def swapped(first: int, second: int) -> list[Json]:
    events = list(EVENTS)
    events[first], events[second] = events[second], events[first]
    return numbered(events)


def twice(name: str) -> list[Json]:
    place = at(name)
    return numbered([*EVENTS[: place + 1], *EVENTS[place:]])


def changing(name: str, change: Change, *, nth: int = 0) -> list[Json]:
    place = at(name, nth=nth)
    return [*EVENTS[:place], changed(EVENTS[place], change), *EVENTS[place + 1 :]]


ALWAYS = {f"RS{number}" for number in (*range(1, 18), 21)}


def test_it_passes_good_streams() -> None:
    assert passes(STREAM, stream(EVENTS)) == ALWAYS
    known = {"replay": records(EVENTS), "after": 4, "tail": records(EVENTS[5:]), "gaps": [0.1, 15.2]}
    assert passes(STREAM, stream(EVENTS, **known)) == ALWAYS | {"RS18", "RS19", "RS20"}
    assert "RS17" in passes(STREAM, stream(FAILING))


def test_it_passes_a_cancelled_stream() -> None:
    cancelled = {"type": "response.incomplete", "response": CANCELLED}

    passes(STREAM, stream(numbered([*EVENTS[:2], cancelled])))


def test_it_reads_the_bytes_of_a_stream() -> None:
    body = b"".join(b"event: %b\ndata: %b\n\n" % (one.event.encode(), one.data) for one in records(EVENTS))

    assert ResponseStream.of(b": keepalive\n\n" + body) == stream(EVENTS)


DELTA = "output_text.delta"
BAD_STREAMS: list[tuple[str, list[Json]]] = [
    ("RS2", changing(DELTA, put("type", to="response.text.delta"))),
    ("RS3", changing(DELTA, put("sequence_number", to=0))),
    ("RS3", changing(DELTA, drop("sequence_number"))),
    ("RS3", EVENTS[1:]),
    ("RS4", swapped(0, 1)),
    ("RS5", EVENTS[:-1]),
    ("RS5", twice("completed")),
    ("RS5", swapped(len(EVENTS) - 1, len(EVENTS) - 2)),
    ("RS6", changing("completed", put("response", "id", to="resp_2"))),
    ("RS7", swapped(at("output_item.added"), at("output_item.added") + 1)),
    ("RS7", changing("output_item.added", put("output_index", to=0), nth=1)),
    ("RS9", changing("output_item.done", put("item", "id", to="rs_2"))),
    ("RS9", changing("output_item.done", put("item", "call_id", to="call_2"), nth=3)),
    ("RS9", changing("completed", put("response", "output", 0, "id", to="rs_2"))),
    ("RS10", without("content_part.added")),
    ("RS10", swapped(at(DELTA), at("output_text.done"))),
    ("RS10", twice("output_text.done")),
    ("RS10", swapped(at("content_part.done"), at("output_item.done", nth=2))),
    ("RS11", changing(DELTA, put("delta", to="It never "))),
    ("RS11", changing("output_text.done", put("text", to="It"))),
    ("RS11", changing("content_part.done", put("part", "text", to="It"))),
    ("RS11", changing("completed", put("response", "output", 2, "content", 0, "text", to="It"))),
    ("RS11", without(DELTA)),
    ("RS12", changing("reasoning_summary_text.delta", put("delta", to="x"))),
    ("RS12", changing("reasoning_summary_text.done", put("text", to="x"))),
    ("RS13", changing("function_call_arguments.delta", put("delta", to="{}"))),
    ("RS13", changing("function_call_arguments.done", put("name", to="g"))),
    ("RS13", changing("function_call_arguments.done", drop("name"))),
    ("RS14", changing("output_text.annotation.added", put("annotation_index", to=1))),
    ("RS14", without("output_text.annotation.added")),
    ("RS15", changing(DELTA, drop("logprobs"))),
    ("RS16", swapped(at("web_search_call.in_progress"), at("web_search_call.searching"))),
    ("RS16", without("web_search_call.completed")),
    ("RS17", changing("completed", put("response", "status", to="incomplete"))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "events"), BAD_STREAMS, ids=[f"{case[0]}-{at}" for at, case in enumerate(BAD_STREAMS)]
)
def test_it_fails_bad_streams(id: str, events: list[Json]) -> None:
    fails(STREAM, stream(events), id)


def test_it_fails_an_item_that_is_never_done() -> None:
    left = [THOUGHT, SEARCH, SPOKEN]
    events = [
        *EVENTS[: at("output_item.done", nth=3)],
        {"type": "response.completed", "response": GOOD | {"output": left}},
    ]

    fails(STREAM, stream(numbered(events)), "RS8")


def test_it_fails_records_of_another_name() -> None:
    for name in ("message", "response.output_text.done"):
        misnamed = (SseRecord(name, records(EVENTS)[0].data), *records(EVENTS)[1:])
        fails(STREAM, ResponseStream(misnamed), "RS1")


def test_it_fails_a_stream_that_ends_as_chat_does() -> None:
    fails(STREAM, ResponseStream((*records(EVENTS), SseRecord("message", b"[DONE]"))), "RS21")


@pytest.mark.parametrize(
    ("id", "known"),
    [
        ("RS18", {"after": 4, "tail": records(EVENTS[4:])}),
        ("RS18", {"after": 4, "tail": records(EVENTS[6:])}),
        ("RS19", {"replay": records(EVENTS[:-1])}),
        ("RS20", {"gaps": [1.0, 21.0]}),
    ],
)
def test_it_fails_streams_by_what_else_is_known(id: str, known: Json) -> None:
    fails(STREAM, stream(EVENTS, **known), id)


def test_it_has_a_bad_stream_for_each_check() -> None:
    by_hand = {"RS1", "RS8", "RS18", "RS19", "RS20", "RS21"}

    assert {case[0] for case in BAD_STREAMS} | by_hand == {check.id for check in STREAM.checks}


ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*GOOD, "type", "item", "output_index"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(ANY_JSON, st.integers(0, len(EVENTS) - 1))
def test_it_judges_any_json(body: Any, place: int) -> None:
    assert faults(RESPONSE.run(response(body)))
    told = list(records(EVENTS))
    told[place] = SseRecord(told[place].event, json.dumps(body).encode())

    assert faults(STREAM.run(ResponseStream(tuple(told))))


def test_its_own_example_is_valid_to_the_sdk() -> None:
    event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

    for one in EVENTS:
        event.validate_python(one)
