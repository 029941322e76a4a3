"""The rules of a Responses stream (openai-compat §§3.4, 6), asked of the events that we made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from portal.wire.sse import SseDecoder
from proxy.protocol.responses_stream import Event

Json = dict[str, Any]
_strict: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_response = TypeAdapter(Response)
_TERMINAL = ("response.completed", "response.failed", "response.incomplete")
_DELTAS = {
    "response.output_text.delta": ("response.output_text.done", "text"),
    "response.reasoning_summary_text.delta": ("response.reasoning_summary_text.done", "text"),
    "response.function_call_arguments.delta": ("response.function_call_arguments.done", "arguments"),
}


def read(events: Sequence[Event]) -> list[Json]:
    """As a client reads them off the stream."""
    records = SseDecoder().feed(b"".join(event.encode() for event in events))
    payloads = [json.loads(record.data) for record in records]
    assert [record.event for record in records] == [payload["type"] for payload in payloads]
    return payloads


def check(events: Sequence[Event]) -> list[Json]:
    """The payloads of a whole stream, once every rule holds."""
    payloads = read(events)
    for payload in payloads:
        _strict.validate_python(payload)
        if "response" in payload:
            _response.validate_python(payload["response"])
    assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
    assert payloads[0]["type"] == "response.created"
    assert [one["type"] in _TERMINAL for one in payloads] == [False] * (len(payloads) - 1) + [True]
    assert len({payload["response"]["id"] for payload in payloads if "response" in payload}) == 1
    final = payloads[-1]["response"]["output"]
    added = [one["item"] for one in payloads if one["type"] == "response.output_item.added"]
    done = {
        one["output_index"]: one["item"] for one in payloads if one["type"] == "response.output_item.done"
    }
    assert [item["id"] for item in added] == [item["id"] for item in final]
    assert len({item["id"] for item in final}) == len(final)
    assert [done[index] for index in range(len(added))] == final
    for index, item in enumerate(final):
        _check_item(item, [one for one in payloads if one.get("output_index") == index])
    return payloads


def _check_item(item: Json, told: list[Json]) -> None:
    types = [one["type"].removeprefix("response.") for one in told]
    assert types[0] == "output_item.added"
    assert types[-1] == "output_item.done"
    assert {one["item_id"] for one in told[1:-1]} <= {item["id"]}
    for delta, (done, name) in _DELTAS.items():
        joined = "".join(one["delta"] for one in told if one["type"] == delta)
        assert all(one[name] == joined for one in told if one["type"] == done)
    middle = [one for one in types[1:-1] if not one.endswith((".delta", ".annotation.added"))]
    assert middle == _ORDER[item["type"]] or (item["status"] == "failed" and middle == middle[:2])
    if item["type"] == "message":
        [part] = item["content"]
        annotations = [one for one in told if one["type"].endswith("annotation.added")]
        assert [one["annotation_index"] for one in annotations] == list(range(len(annotations)))
        assert [one["annotation"] for one in annotations] == part["annotations"]
        assert part["text"] == next(one["text"] for one in told if one["type"].endswith("output_text.done"))


_ORDER = {
    "message": ["content_part.added", "output_text.done", "content_part.done"],
    "reasoning": [
        "reasoning_summary_part.added",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ],
    "web_search_call": [f"web_search_call.{state}" for state in ("in_progress", "searching", "completed")],
    "function_call": ["function_call_arguments.done"],
}
