"""Deltas → the events of one response (openai-compat §3.4, proxy-contract §8.6).

    stream = ResponseStream(head)
    stream.open()              response.created, response.in_progress
    stream.feed(deltas) …      items and their deltas; may be fed anything, in any order
    stream.complete(closing)   or fail(problem), or cancel(): what is open is closed, and the one last event

A search or a page that the upstream tells of is a `web_search_call` item; its plans and findings are
lines of a reasoning item; items follow one another as the steps did. A step that comes after the text
has begun gets an item of its own behind the message, which stays open. The text is trimmed, as it is
in a plain answer. What was told can be had from the events alone (`restored`), so that another
process ends what a dead one began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec

from portal.wire.errors import Problem
from proxy.protocol import response_object as shape
from proxy.protocol.delta import Citation, Delta, Done, Reasoning, SourceFound, Text
from proxy.protocol.response_object import FunctionCall, Head, Json, Status, Usage
from proxy.protocol.response_output import Output, Slot

_encode = msgspec.json.Encoder().encode
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Event:
    """One event, encoded once. `data` is its JSON on one line."""

    sequence_number: int
    type: str
    data: bytes

    def encode(self) -> bytes:
        """The record of the event stream."""
        return b"event: %b\ndata: %b\n\n" % (self.type.encode(), self.data)


@dataclass(frozen=True, slots=True)
class Closing:
    """What is only known when the answer is whole. `query_characters` were sent upstream."""

    completed_at: int
    query_characters: int
    done: Done | None = None
    """Its citations become annotations. None for an answer of the function bridge."""
    appendix: str = ""
    """Notices and footer, behind the text."""
    sonde: Mapping[str, Any] = field(default_factory=dict)


class ResponseStream:
    """Makes the events of one response, in order, numbered from 0.

    With `include_sources` a search names the pages that were found while it was the last step.
    """

    def __init__(self, head: Head, *, include_sources: bool = False) -> None:
        self._head = head
        self._include_sources = include_sources
        self._output = Output()
        self._found: list[str] = []
        self._held = ""
        """Blanks that are told once something follows them."""
        self._lead = 0
        """Blanks before the text, which are not told."""

    @classmethod
    def restored(
        cls, head: Head, events: Iterable[Event], *, include_sources: bool = False
    ) -> ResponseStream:
        """The stream as it stood after `events`: all of them from 0 on, each call's events whole."""
        stream = cls(head, include_sources=include_sources)
        for event in events:
            stream._output.apply(msgspec.json.decode(event.data))
        return stream

    @property
    def over(self) -> bool:
        """Whether the terminal event was made: nothing may follow it."""
        return self._output.over

    @property
    def text(self) -> str:
        """The text so far."""
        return self._output.text

    @property
    def response(self) -> Json:
        """The whole object as the last lifecycle event told it: after the terminal one, what to store."""
        return self._output.response

    def open(self, *, queued: bool = False) -> list[Event]:
        """The first events. A queued response goes on with `begin` once somebody works at it."""
        if not queued:
            return [self._lifecycle("created", "in_progress"), *self.begin()]
        return [self._lifecycle("created", "queued"), self._lifecycle("queued", "queued")]

    def begin(self) -> list[Event]:
        """`response.in_progress`; nothing when it was told already."""
        return [] if self._output.begun else [self._lifecycle("in_progress", "in_progress")]

    def feed(self, deltas: Sequence[Delta]) -> list[Event]:
        """What a read of the upstream says to the client: often nothing."""
        events = self._started()
        for kind, group in groupby(deltas, type):
            if kind is Text:
                events += self._say("".join(delta.text for delta in group if isinstance(delta, Text)))
                continue
            for delta in group:
                if isinstance(delta, Reasoning):
                    events += self._tell(delta)
                elif isinstance(delta, SourceFound):
                    self._found.append(delta.source.url)
        return events

    def call(self, functions: Sequence[FunctionCall]) -> list[Event]:
        """Function calls, each whole at once (proxy-contract §9)."""
        return [*self._started(), *(event for function in functions for event in self._call(function))]

    def complete(self, closing: Closing) -> list[Event]:
        """The rest, and `response.completed`."""
        events = [*self._started(), *self._end_step()]
        usage = self._usage(closing.query_characters)
        self._held = ""
        if closing.appendix:
            events += self._say(closing.appendix)
        if not self._output.says_something:
            events += self._open_message()
        citations = closing.done.citations if closing.done else ()
        events += [*self._annotate(citations), *self._end_message("completed")]
        last = self._lifecycle(
            "completed",
            "completed",
            completed_at=closing.completed_at,
            usage=usage,
            sonde=closing.sonde,
        )
        return [*events, last]

    def fail(self, problem: Problem, usage: Usage | None = None) -> list[Event]:
        """What is open is closed as it stands, then `response.failed`."""
        events = self._break_off()
        return [*events, self._lifecycle("failed", "failed", error=shape.error_of(problem), usage=usage)]

    def cancel(self, usage: Usage | None = None) -> list[Event]:
        """There is no event for a cancelled response: `response.incomplete`, with status cancelled."""
        return [*self._break_off(), self._lifecycle("incomplete", "cancelled", usage=usage)]

    def _started(self) -> list[Event]:
        """What has to be told before anything else."""
        return self.begin() if self._output.count else self.open()

    def _say(self, text: str) -> list[Event]:
        text = self._held + text
        message = self._output.open_message
        if message is None:
            self._lead += len(text) - len(text.lstrip())
            text = text.lstrip()
        told = text.rstrip()
        self._held = text[len(told) :]
        if not told:
            return []
        events = [] if message else [*self._end_step(), *self._open_message()]
        delta = self._emit("output_text.delta", self._message(), content_index=0, delta=told, logprobs=[])
        return [*events, delta]

    def _tell(self, step: Reasoning) -> list[Event]:
        if step.activity not in ("searching", "reading"):
            return self._line(step.line)
        events = self._end_step()
        make = shape.search_item if step.activity == "searching" else shape.open_page_item
        slot, added = self._add(make(self._new_id("ws_"), "in_progress", step.subject))
        self._found.clear()
        told = [self._emit(f"web_search_call.{state}", slot) for state in ("in_progress", "searching")]
        return [*events, added, *told]

    def _line(self, line: str) -> list[Event]:
        slot, events = self._output.open_step, []
        if slot is None or slot.kind != "reasoning":
            events = self._end_step()
            slot, added = self._add(shape.reasoning_item(self._new_id("rs_")))
            part = shape.summary_part()
            events += [added, self._emit("reasoning_summary_part.added", slot, summary_index=0, part=part)]
        delta = f"\n{line}" if slot.pieces else line
        return [*events, self._emit("reasoning_summary_text.delta", slot, summary_index=0, delta=delta)]

    def _call(self, function: FunctionCall) -> list[Event]:
        events = self._end_step()
        id = self._new_id("fc_")
        slot, added = self._add(shape.function_call_item(id, "in_progress", function, arguments=""))
        said = function.arguments
        return [
            *events,
            added,
            self._emit("function_call_arguments.delta", slot, delta=said),
            self._emit("function_call_arguments.done", slot, arguments=said, name=function.name),
            self._done(slot, shape.function_call_item(id, "completed", function)),
        ]

    def _open_message(self) -> list[Event]:
        slot, added = self._add(shape.message_item(self._new_id("msg_"), "in_progress"))
        return [added, self._emit("content_part.added", slot, content_index=0, part=shape.text_part())]

    def _annotate(self, citations: Iterable[Citation]) -> list[Event]:
        """Those that lie in the text as it was told, and mark something there."""
        slot = self._output.open_message
        if slot is None:
            return []
        moved = (Citation(one.start - self._lead, one.end - self._lead, one.source) for one in citations)
        inside = [one for one in moved if 0 <= one.start < one.end <= len(slot.text)]
        marking = [one for one in inside if slot.text[one.start : one.end].strip()]
        return [
            self._emit(
                "output_text.annotation.added",
                slot,
                content_index=0,
                annotation_index=number,
                annotation=shape.url_citation(citation),
            )
            for number, citation in enumerate(marking)
        ]

    def _end_step(self, *, broken: bool = False) -> list[Event]:
        slot = self._output.open_step
        if slot is None:
            return []
        return self._end_reasoning(slot) if slot.kind == "reasoning" else self._end_search(slot, broken)

    def _end_reasoning(self, slot: Slot) -> list[Event]:
        part = shape.summary_part(slot.text)
        return [
            self._emit("reasoning_summary_text.done", slot, summary_index=0, text=slot.text),
            self._emit("reasoning_summary_part.done", slot, summary_index=0, part=part),
            self._done(slot, shape.reasoning_item(slot.id, slot.text)),
        ]

    def _end_search(self, slot: Slot, broken: bool) -> list[Event]:
        action = slot.item["action"]
        if self._include_sources and action["type"] == "search":
            action = action | {"sources": [{"type": "url", "url": url} for url in dict.fromkeys(self._found)]}
        item = slot.item | {"status": "failed" if broken else "completed", "action": action}
        return [*([] if broken else [self._emit("web_search_call.completed", slot)]), self._done(slot, item)]

    def _end_message(self, status: str) -> list[Event]:
        slot = self._output.open_message
        if slot is None:
            return []
        part = shape.text_part(slot.text, slot.annotations)
        return [
            self._emit("output_text.done", slot, content_index=0, text=slot.text, logprobs=[]),
            self._emit("content_part.done", slot, content_index=0, part=part),
            self._done(slot, shape.message_item(slot.id, status, [part])),
        ]

    def _break_off(self) -> list[Event]:
        opened = [] if self._output.count else [self._lifecycle("created", "in_progress")]
        return [*opened, *self._end_step(broken=True), *self._end_message("incomplete")]

    def _message(self) -> Slot:
        slot = self._output.open_message
        if slot is None:
            raise RuntimeError("no message is open")
        return slot

    def _usage(self, query_characters: int) -> Usage:
        """An estimate of the text without notices, the reasoning, and the calls."""
        said, thought = self._output.sizes()
        reasoning = thought // _CHARACTERS_PER_TOKEN
        return Usage(
            query_characters // _CHARACTERS_PER_TOKEN, said // _CHARACTERS_PER_TOKEN + reasoning, reasoning
        )

    def _new_id(self, prefix: shape.Prefix) -> str:
        return shape.item_id(prefix, self._head.id, f"out.{len(self._output.slots)}")

    def _add(self, item: Json) -> tuple[Slot, Event]:
        event = self._write("output_item.added", output_index=len(self._output.slots), item=item)
        return self._output.slots[-1], event

    def _done(self, slot: Slot, item: Json) -> Event:
        return self._write("output_item.done", output_index=slot.index, item=item)

    def _emit(self, name: str, slot: Slot, /, **members: Any) -> Event:
        return self._write(name, item_id=slot.id, output_index=slot.index, **members)

    def _lifecycle(self, name: str, status: Status, **members: Any) -> Event:
        output = self._output.items
        return self._write(name, response=shape.frame(self._head, status, output=output, **members))

    def _write(self, name: str, /, **members: Any) -> Event:
        if self.over:
            raise RuntimeError("the response has ended")
        number, type_ = self._output.count, f"response.{name}"
        payload = {"type": type_, "sequence_number": number, **members}
        self._output.apply(payload)
        return Event(number, type_, _encode(payload))


def interrupted(problem: Problem) -> bytes:
    """The last words of a connection whose response goes on without it: both SDKs raise it.

    It is no event and has no number, so whoever resumes misses nothing (openai-compat §1.4).
    """
    return b"event: error\ndata: %b\n\n" % _encode(problem.body())
