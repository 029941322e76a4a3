"""Sonar's event streams (perplexity-api §4.2): deltas in, records out.

    full      chat.completion.chunk …, each with its increment and all the text so far
    concise   chat.reasoning … → chat.reasoning.done → chat.completion.chunk … → chat.completion.done

One chunk per upstream read and kind. Both end with `[DONE]`. A step that comes when the text has begun
is told at the end of a concise stream, whose reasoning is over by then.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from portal.wire.errors import Problem
from proxy.protocol.delta import Delta, Reasoning, Source, SourceFound, Text
from proxy.protocol.sonar_answer import (
    Body,
    SonarEnd,
    SonarHead,
    choice,
    error_body,
    found,
    message,
    no_usage,
    step_of,
)

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"


class SonarStream(Protocol):
    """Encodes one streamed answer."""

    def encode(self, deltas: list[Delta]) -> bytes:
        """The chunks of one read: b"" when nothing in it is for the client."""
        ...

    def finish(self, end: SonarEnd) -> bytes:
        """Everything behind the text."""
        ...


def error_record(problem: Problem) -> bytes:
    """The last record of a stream that fails. Without the event's name the Perplexity SDK would take
    it for a chunk (perplexity-api §7.5)."""
    return b"event: error\n" + _record(error_body(problem))


class _Answer:
    """What of an answer has come."""

    def __init__(self, head: SonarHead) -> None:
        self.head = head
        self.text = ""
        self.steps: list[Body] = []
        self.sources: dict[int, Source] = {}

    def add(self, deltas: list[Delta]) -> tuple[str, list[Body]]:
        """The text and the steps that are new."""
        said: list[str] = []
        steps: list[Body] = []
        for delta in deltas:
            if isinstance(delta, Text):
                said.append(delta.text)
            elif isinstance(delta, Reasoning):
                steps.append(step_of(delta))
            elif isinstance(delta, SourceFound):
                self.sources[delta.number] = delta.source
        self.text += (text := "".join(said))
        self.steps += steps
        return text, steps

    def found(self) -> Body:
        return found([self.sources[number] for number in sorted(self.sources)])


class FullStream:
    """Chunks that each are a whole answer so far."""

    def __init__(self, head: SonarHead) -> None:
        self._answer = _Answer(head)

    def encode(self, deltas: list[Delta]) -> bytes:
        text, steps = self._answer.add(deltas)
        if not (text or steps):
            return b""
        said = choice(message(text, steps), message(self._answer.text))
        return self._chunk({"choices": [said], **self._answer.found(), "usage": no_usage()})

    def finish(self, end: SonarEnd) -> bytes:
        answer = self._answer
        whole = answer.text + end.appendix
        last = choice(message(end.appendix), message(whole, answer.steps), "stop")
        ending = {"usage": end.usage(whole, answer.steps), "sonde": end.sonde}
        return self._chunk({"choices": [last], **found(end.done.sources), **ending}) + _DONE

    def _chunk(self, more: Body) -> bytes:
        return _record({**self._answer.head.begin("chat.completion.chunk"), **more})


class ConciseStream:
    """Chunks that repeat nothing, and a last one that has it all."""

    def __init__(self, head: SonarHead) -> None:
        self._answer = _Answer(head)
        self._reasons = True

    def encode(self, deltas: list[Delta]) -> bytes:
        text, steps = self._answer.add(deltas)
        records = b""
        if steps and self._reasons:
            records += self._chunk("chat.reasoning", message("", steps))
        if text:
            records += self._end_reasoning() + self._chunk("chat.completion.chunk", message(text))
        return records

    def finish(self, end: SonarEnd) -> bytes:
        answer = self._answer
        records = self._end_reasoning()
        if end.appendix:
            records += self._chunk("chat.completion.chunk", message(end.appendix))
        whole = answer.text + end.appendix
        last: Body = {
            **answer.head.begin("chat.completion.done"),
            "choices": [choice(message(""), message(whole, answer.steps), "stop")],
            **found(end.done.sources),
            "usage": end.usage(whole, answer.steps),
            "sonde": end.sonde,
        }
        return records + _record(last) + _DONE

    def _end_reasoning(self) -> bytes:
        """Once, before the first text."""
        if not self._reasons:
            return b""
        self._reasons = False
        answer = self._answer
        over: Body = {
            **answer.head.begin("chat.reasoning.done"),
            "choices": [choice(message(""), message("", answer.steps))],
            **answer.found(),
            "images": [],
            "usage": no_usage(),
        }
        return _record(over)

    def _chunk(self, kind: str, delta: Body) -> bytes:
        return _record({**self._answer.head.begin(kind), "choices": [choice(delta, message(""))]})


def _record(body: Body) -> bytes:
    return b"data: " + _encode(body) + b"\n\n"
