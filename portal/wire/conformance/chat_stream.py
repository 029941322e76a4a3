"""A streamed chat completion: profile CS of openai-compat §6."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from portal.wire.conformance.checks import Fault, NotThere, Suite, arr, needed, obj, text, unless
from portal.wire.sse import SseDecoder, SseRecord

DONE = "[DONE]"
_SPOKEN = ("content", "reasoning_content", "tool_calls", "refusal")


@dataclass(frozen=True, slots=True)
class ChatStream:
    """The records of one stream. `plain` is the content of the same answer, not streamed, where known."""

    records: tuple[SseRecord, ...]
    include_usage: bool = False
    plain: str | None = None
    chunks: tuple[Any, ...] = field(init=False)
    """The decoded records but for `[DONE]`; None for what is no JSON."""

    def __post_init__(self) -> None:
        chunks = tuple(_decoded(record.text) for record in self.records if record.text != DONE)
        object.__setattr__(self, "chunks", chunks)

    @classmethod
    def of(cls, body: bytes, *, include_usage: bool = False, plain: str | None = None) -> ChatStream:
        """From the bytes of the body."""
        return cls(tuple(SseDecoder().feed(body)), include_usage, plain)

    @property
    def failed(self) -> bool:
        return any(isinstance(chunk, dict) and chunk.get("error") for chunk in self.chunks)

    @property
    def told(self) -> list[dict[str, Any]]:
        """The chunks but for an error."""
        return [obj(chunk) for chunk in self.chunks if not (isinstance(chunk, dict) and chunk.get("error"))]

    def choices(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each choice of each chunk, with its index."""
        for chunk in self.told:
            for choice in arr(chunk["choices"]):
                yield obj(choice)["index"], choice

    def by_choice(self) -> dict[int, list[dict[str, Any]]]:
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for index, choice in self.choices():
            found[index].append(choice)
        if not found:
            raise KeyError("no choice at all")
        return found

    @property
    def content(self) -> str:
        return "".join(choice["delta"].get("content") or "" for _, choice in self.choices())


def _decoded(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


STREAM: Suite[ChatStream] = Suite()


def _whole(stream: ChatStream) -> None:
    """For checks of what only a stream that succeeded has."""
    if stream.failed:
        raise NotThere


@STREAM.check("CS1", "every record is a JSON object or [DONE]")
def _cs1(stream: ChatStream) -> Fault:
    return unless(stream.chunks and all(isinstance(chunk, dict) for chunk in stream.chunks))


@STREAM.check("CS2", "[DONE] comes once, at the end, after success only")
def _cs2(stream: ChatStream) -> Fault:
    _whole(stream)
    said = [record.text == DONE for record in stream.records]
    return unless(said.count(True) == 1 and said[-1], "it is missing, doubled, or not the last")


@STREAM.check("CS3", "id, created, model and fingerprint never change")
def _cs3(stream: ChatStream) -> Fault:
    for name in ("id", "created", "model", "system_fingerprint"):
        if len({json.dumps(chunk[name]) for chunk in stream.told}) != 1:
            return f"{name} does"
    return None


@STREAM.check("CS4", "the first delta has the role")
def _cs4(stream: ChatStream) -> Fault:
    return unless(all(of[0]["delta"]["role"] == "assistant" for of in stream.by_choice().values()))


@STREAM.check("CS5", "the role comes once")
def _cs5(stream: ChatStream) -> Fault:
    return unless(
        all(sum("role" in choice["delta"] for choice in of) == 1 for of in stream.by_choice().values())
    )


@STREAM.check("CS6", "each choice has one finish_reason, at its end")
def _cs6(stream: ChatStream) -> Fault:
    _whole(stream)
    for choices in stream.by_choice().values():
        reasons = [bool(choice.get("finish_reason")) for choice in choices]
        if reasons.count(True) != 1 or not reasons[-1]:
            return "it is missing, doubled, or too early"
    return None


@STREAM.check("CS7", "nothing is said after the finish_reason")
def _cs7(stream: ChatStream) -> Fault:
    for choices in stream.by_choice().values():
        over = False
        for choice in choices:
            if over and any(choice["delta"].get(name) for name in _SPOKEN):
                return "something is"
            over = over or bool(choice.get("finish_reason"))
    return None


@STREAM.check("CS8", "usage comes when it was asked for, in a last chunk without choices")
def _cs8(stream: ChatStream) -> Fault:
    _whole(stream)
    carriers = [bool(chunk.get("usage")) for chunk in stream.told]
    if not stream.include_usage:
        return unless(not any(carriers) and all(chunk["choices"] for chunk in stream.told), "unasked for")
    last = stream.told[-1]
    usage = obj(last["usage"])
    adds_up = usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    earlier = all("usage" in chunk and chunk["usage"] is None for chunk in stream.told[:-1])
    return unless(last["choices"] == [] and adds_up and earlier, "not so, or it does not add up")


@STREAM.check("CS9", "tool calls come together from their fragments")
def _cs9(stream: ChatStream) -> Fault:
    fragments = [
        obj(one) for _, choice in stream.choices() for one in arr(choice["delta"].get("tool_calls") or [])
    ]
    if not fragments:
        raise NotThere
    arguments: list[str] = []
    for one in fragments:
        function = obj(one["function"])
        if one["index"] == len(arguments):
            if not (text(one["id"]) and one["type"] == "function" and text(function["name"])):
                return "a first fragment has no names"
            arguments.append("")
        elif one["index"] != len(arguments) - 1 or {"id", "type"} & set(one) or "name" in function:
            return "an index leaps, or names come twice"
        arguments[-1] += text(function.get("arguments", ""))
    for joined in arguments:
        json.loads(joined)
    return None


@STREAM.check("CS10", "the pieces make the answer that is not streamed")
def _cs10(stream: ChatStream) -> Fault:
    needed(stream.plain)
    return unless(stream.content.strip() == (stream.plain or "").strip(), "the texts differ")


@STREAM.check("CS11", "an error is an envelope, the last record, and no [DONE] follows")
def _cs11(stream: ChatStream) -> Fault:
    if not stream.failed:
        raise NotThere
    last = obj(_decoded(stream.records[-1].text))
    return unless(set(obj(last["error"])) >= {"message", "type", "param", "code"}, "not so")


@STREAM.check("CS12", "no record names an event")
def _cs12(stream: ChatStream) -> Fault:
    return unless(all(record.event == "message" for record in stream.records), "one does")
