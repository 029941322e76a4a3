"""A streamed Response: profile RS of openai-compat §6."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.wire.conformance.checks import (
    Fault,
    NotThere,
    Suite,
    arr,
    first,
    integer,
    needed,
    obj,
    text,
    unless,
)
from portal.wire.sse import SseDecoder, SseRecord

Event = dict[str, Any]
Place = tuple[int, int]
LONGEST_GAP = 20.0
"""Seconds without a byte."""
TERMINAL = {
    "response.completed": ("completed",),
    "response.failed": ("failed",),
    "response.incomplete": ("incomplete", "cancelled"),
}
_FAMILIES = {
    "": "error",
    "response.": "completed created failed in_progress incomplete queued audio.delta audio.done",
    "response.audio.transcript.": "delta done",
    "response.code_interpreter_call_code.": "delta done",
    "response.code_interpreter_call.": "completed in_progress interpreting",
    "response.compaction.": "compacting",
    "response.content_part.": "added done",
    "response.custom_tool_call_input.": "delta done",
    "response.file_search_call.": "completed in_progress searching",
    "response.function_call_arguments.": "delta done",
    "response.image_generation_call.": "completed generating in_progress partial_image",
    "response.mcp_call_arguments.": "delta done",
    "response.mcp_call.": "completed failed in_progress",
    "response.mcp_list_tools.": "completed failed in_progress",
    "response.output_item.": "added done",
    "response.output_text.": "annotation.added delta done",
    "response.reasoning_summary_part.": "added done",
    "response.reasoning_summary_text.": "delta done",
    "response.reasoning_text.": "delta done",
    "response.refusal.": "delta done",
    "response.shell_call_command.": "added delta done",
    "response.shell_call_output_content.": "delta done",
    "response.web_search_call.": "completed in_progress searching",
}
TYPES = frozenset(family + name for family, names in _FAMILIES.items() for name in names.split())
"""What the SDK knows; anything else it reads as a wrong class (openai-compat §3.4)."""
_RANKS = {
    "content_part.added": 1,
    "reasoning_summary_part.added": 1,
    "output_text.delta": 2,
    "output_text.annotation.added": 2,
    "reasoning_summary_text.delta": 2,
    "refusal.delta": 2,
    "output_text.done": 3,
    "reasoning_summary_text.done": 3,
    "refusal.done": 3,
    "content_part.done": 4,
    "reasoning_summary_part.done": 4,
}


@dataclass(frozen=True, slots=True)
class ResponseStream:
    """The records of one stream, from its beginning. What else is known lets more be checked.

    `replay` are the records of the same stream read again, `tail` those after sequence number `after`;
    `gaps` the seconds between two reads of the network.
    """

    records: tuple[SseRecord, ...]
    replay: tuple[SseRecord, ...] | None = None
    after: int = -1
    tail: tuple[SseRecord, ...] | None = None
    gaps: Sequence[float] | None = None
    events: tuple[Event, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(_decoded(record) for record in self.records))

    @classmethod
    def of(cls, body: bytes, **known: Any) -> ResponseStream:
        """From the bytes of the body."""
        return cls(tuple(SseDecoder().feed(body)), **known)

    @property
    def last(self) -> Event:
        """The terminal event."""
        if not self.events or self.events[-1].get("type") not in TERMINAL:
            raise KeyError("no terminal event")
        return self.events[-1]

    @property
    def output(self) -> list[Any]:
        return arr(obj(self.last["response"])["output"])

    def named(self, *names: str) -> list[Event]:
        wanted = {f"response.{name}" for name in names}
        return [event for event in self.events if event.get("type") in wanted]

    def joined(self, name: str, inner: str) -> dict[Place, str]:
        """The deltas of `name`, joined by where they belong: output index and the index called `inner`."""
        found: dict[Place, list[str]] = defaultdict(list)
        for event in self.named(f"{name}.delta"):
            found[event["output_index"], event.get(inner, 0)].append(text(event["delta"]))
        return {place: "".join(pieces) for place, pieces in found.items()}

    def ended(self, name: str, inner: str, *way: str) -> dict[Place, str]:
        """What the `done` events of `name` say of their text, found along `way`."""
        return {
            (event["output_index"], event.get(inner, 0)): text(_along(event, way))
            for event in self.named(f"{name}.done")
        }


def _decoded(record: SseRecord) -> Event:
    try:
        value = json.loads(record.text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _along(value: Any, way: Sequence[str]) -> Any:
    for name in way:
        value = value[name]
    return value


STREAM: Suite[ResponseStream] = Suite()


@STREAM.check("RS1", "the record's event is the type of its data")
def _rs1(stream: ResponseStream) -> Fault:
    return unless(
        stream.records
        and all(
            record.event == event["type"] for record, event in zip(stream.records, stream.events, strict=True)
        )
    )


@STREAM.check("RS2", "the SDK knows every type")
def _rs2(stream: ResponseStream) -> Fault:
    return first(unless(event["type"] in TYPES, f"not {event['type']}") for event in stream.events)


@STREAM.check("RS3", "sequence_number counts from 0 without a gap")
def _rs3(stream: ResponseStream) -> Fault:
    numbers = [integer(event["sequence_number"]) for event in stream.events]
    return unless(numbers == list(range(len(numbers))))


@STREAM.check("RS4", "response.created comes first")
def _rs4(stream: ResponseStream) -> Fault:
    return unless(stream.events[0]["type"] == "response.created")


@STREAM.check("RS5", "one terminal event comes, at the end")
def _rs5(stream: ResponseStream) -> Fault:
    ends = [event["type"] in TERMINAL for event in stream.events]
    return unless(ends.count(True) == 1 and ends[-1], "it is missing, doubled, or not the last")


@STREAM.check("RS6", "the response keeps its id")
def _rs6(stream: ResponseStream) -> Fault:
    ids = {text(obj(event["response"])["id"]) for event in stream.events if "response" in event}
    return unless(len(ids) == 1, "it does not")


@STREAM.check("RS7", "items are added in order, before anything is said of them")
def _rs7(stream: ResponseStream) -> Fault:
    added = 0
    for event in stream.events:
        index = event.get("output_index")
        if event["type"] == "response.output_item.added":
            if index != added:
                return "an index is used twice, or left out"
            added += 1
        elif index is not None and not 0 <= index < added:
            return "something is said of an item that is not there yet"
    return None


@STREAM.check("RS8", "each item that was added is done, or in the final output")
def _rs8(stream: ResponseStream) -> Fault:
    done = {event["output_index"] for event in stream.named("output_item.done")}
    kept = {item["id"] for item in stream.output}
    for event in stream.named("output_item.added"):
        if event["output_index"] not in done and event["item"]["id"] not in kept:
            return "one is not"
    return None


@STREAM.check("RS9", "an item keeps its ids from first to last")
def _rs9(stream: ResponseStream) -> Fault:
    names: dict[int, tuple[Any, Any]] = {}
    for event in stream.named("output_item.added", "output_item.done"):
        index, item = event["output_index"], event["item"]
        if names.setdefault(index, (item["id"], item.get("call_id"))) != (item["id"], item.get("call_id")):
            return "one changes"
    final = [(item["id"], item.get("call_id")) for item in stream.output]
    return unless(final == [names[index] for index in sorted(names)], "the final output has others")


@STREAM.check("RS10", "the events of a text come in their order")
def _rs10(stream: ResponseStream) -> Fault:
    ranks: dict[Any, int] = defaultdict(int)
    over: set[Any] = set()
    for event in stream.events:
        name, index = event["type"].removeprefix("response."), event.get("output_index")
        if index in over:
            return "something follows the end of its item"
        if name == "output_item.done":
            over.add(index)
        if (rank := _RANKS.get(name)) is None:
            continue
        place = (index, event.get("content_index", event.get("summary_index")))
        if not ranks[place] <= rank <= ranks[place] + 2 or (rank != 2 and rank == ranks[place]):
            return f"{name} comes too early, too late or twice"
        if ranks[place] == 0 and rank != 1:
            return f"{name} comes before its part"
        ranks[place] = rank
    return None


def _same(stream: ResponseStream, *tellings: dict[Place, str]) -> Fault:
    """All tell the same; a text without pieces is empty. A stream that broke off may leave some untold."""
    places = {place for telling in tellings for place in telling}
    if not places:
        raise NotThere
    whole = stream.last["type"] == "response.completed"
    for place in places:
        told = {telling.get(place, "") for telling in tellings if whole or place in telling}
        if len(told) > 1:
            return "they differ"
    return None


def _finals(stream: ResponseStream, kind: str, parts: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    for index, item in enumerate(stream.output):
        if item["type"] == kind:
            yield from (((index, at), part) for at, part in enumerate(arr(item[parts])))


def _final_texts(stream: ResponseStream) -> dict[Place, str]:
    return {
        place: text(part["text"])
        for place, part in _finals(stream, "message", "content")
        if part["type"] == "output_text"
    }


@STREAM.check("RS11", "the pieces of a text make the text, wherever it is told")
def _rs11(stream: ResponseStream) -> Fault:
    parts = {
        (event["output_index"], event["content_index"]): text(event["part"]["text"])
        for event in stream.named("content_part.done")
        if event["part"]["type"] == "output_text"
    }
    return _same(
        stream,
        stream.joined("output_text", "content_index"),
        stream.ended("output_text", "content_index", "text"),
        parts,
        _final_texts(stream),
    )


@STREAM.check("RS12", "the pieces of a summary make the summary")
def _rs12(stream: ResponseStream) -> Fault:
    return _same(
        stream,
        stream.joined("reasoning_summary_text", "summary_index"),
        stream.ended("reasoning_summary_text", "summary_index", "text"),
        stream.ended("reasoning_summary_part", "summary_index", "part", "text"),
        {place: text(part["text"]) for place, part in _finals(stream, "reasoning", "summary")},
    )


@STREAM.check("RS13", "the pieces of arguments make the arguments, with the function's name")
def _rs13(stream: ResponseStream) -> Fault:
    calls = [(index, item) for index, item in enumerate(stream.output) if item["type"] == "function_call"]
    done = stream.named("function_call_arguments.done")
    if any(event["name"] != stream.output[event["output_index"]]["name"] for event in done):
        return "the name is another"
    return _same(
        stream,
        stream.joined("function_call_arguments", ""),
        stream.ended("function_call_arguments", "", "arguments"),
        {(index, 0): text(item["arguments"]) for index, item in calls},
    )


@STREAM.check("RS14", "annotations are counted from 0, and are those of the final text")
def _rs14(stream: ResponseStream) -> Fault:
    told: dict[Place, list[Any]] = defaultdict(list)
    for event in stream.named("output_text.annotation.added"):
        place = (event["output_index"], event["content_index"])
        if event["annotation_index"] != len(told[place]):
            return "a number is left out"
        told[place].append(event["annotation"])
    finals = {
        place: arr(part["annotations"])
        for place, part in _finals(stream, "message", "content")
        if part.get("annotations")
    }
    if not told and not finals:
        raise NotThere
    return unless(dict(told) == finals, "the final text has others")


@STREAM.check("RS15", "the events of a text carry logprobs")
def _rs15(stream: ResponseStream) -> Fault:
    said = stream.named("output_text.delta", "output_text.done")
    if not said:
        raise NotThere
    return unless(all(isinstance(event["logprobs"], list) for event in said), "one does not")


@STREAM.check("RS16", "the events of a web search come in their order")
def _rs16(stream: ResponseStream) -> Fault:
    order = ("in_progress", "searching", "completed")
    told: dict[int, list[str]] = defaultdict(list)
    for event in stream.named(*(f"web_search_call.{name}" for name in order)):
        told[event["output_index"]].append(event["type"].rpartition(".")[2])
    if not told:
        raise NotThere
    whole = stream.last["type"] == "response.completed"
    return unless(
        all(tuple(names) == order[: len(names)] and (len(names) == 3 or not whole) for names in told.values())
    )


@STREAM.check("RS17", "the last status is the one that its event names")
def _rs17(stream: ResponseStream) -> Fault:
    last = stream.last
    return unless(obj(last["response"])["status"] in TERMINAL[last["type"]], "it is another")


@STREAM.check("RS18", "resuming gives what follows, and nothing else")
def _rs18(stream: ResponseStream) -> Fault:
    needed(stream.tail)
    return unless(stream.tail == stream.records[stream.after + 1 :], "it gives something else")


@STREAM.check("RS19", "a replay is the same stream")
def _rs19(stream: ResponseStream) -> Fault:
    needed(stream.replay)
    return unless(stream.replay == stream.records, "it differs")


@STREAM.check("RS20", f"no silence is longer than {LONGEST_GAP:g} seconds")
def _rs20(stream: ResponseStream) -> Fault:
    if stream.gaps is None:
        raise NotThere
    longest = max(stream.gaps, default=0.0)
    return unless(longest <= LONGEST_GAP, f"one is {longest:.0f} seconds")


@STREAM.check("RS21", "there is no [DONE]")
def _rs21(stream: ResponseStream) -> Fault:
    return unless(all(record.text != "[DONE]" for record in stream.records), "there is one")
