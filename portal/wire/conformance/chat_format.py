"""The rows of the debug chat's format check (proxy-contract §16): every row shows, good or bad.

Groups are those of the page. The seed promises more than twenty rows for each answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portal.wire.conformance.chat_stream import DONE, ChatStream
from portal.wire.conformance.checks import (
    Fault,
    NotThere,
    Suite,
    arr,
    first,
    is_int,
    is_number,
    obj,
    text,
    unless,
)

TOP, PROTOCOL, MESSAGE, CALLS, USAGE = (
    "Top-Level", "Streaming Protocol", "Message", "Tool Calls", "Usage",
)  # fmt: skip
_MARK = re.compile(r"\[\d+\]")
_CODE = re.compile(r"(`+).*?\1", re.DOTALL)
_SKEW = 60
"""Seconds that two clocks may differ."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A plain answer: its decoded body, its content type, and what time it is, in seconds."""

    body: Any
    content_type: str
    at: float

    @property
    def choice(self) -> dict[str, Any]:
        return obj(arr(obj(self.body)["choices"])[0])

    @property
    def message(self) -> dict[str, Any]:
        return obj(self.choice["message"])

    @property
    def calls(self) -> list[Any]:
        calls = self.message.get("tool_calls")
        if calls is None:
            raise NotThere
        return arr(calls)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed answer."""

    stream: ChatStream
    content_type: str
    at: float

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return self.stream.told

    @property
    def first(self) -> dict[str, Any]:
        return self.chunks[0]

    @property
    def choice(self) -> dict[str, Any]:
        """Of the first chunk."""
        return obj(arr(self.first["choices"])[0])

    @property
    def last(self) -> dict[str, Any]:
        """The choice of the last chunk that has one."""
        return [choice for _, choice in self.stream.choices()][-1]

    @property
    def fragments(self) -> list[dict[str, Any]]:
        found = [
            obj(one)
            for _, choice in self.stream.choices()
            for one in arr(choice["delta"].get("tool_calls") or [])
        ]
        if not found:
            raise NotThere
        return found


PLAIN: Suite[Answer] = Suite()
STREAM: Suite[Streamed] = Suite()


def _plain(
    id: str, title: str, group: str, holds: Callable[[Answer], object], *, warns: bool = False
) -> None:
    PLAIN.check(id, title, "WARN" if warns else "FAIL", group)(lambda answer: unless(holds(answer)))


def _stream(
    id: str, title: str, group: str, holds: Callable[[Streamed], object], *, warns: bool = False
) -> None:
    STREAM.check(id, title, "WARN" if warns else "FAIL", group)(lambda answer: unless(holds(answer)))


def _has(name: str) -> Callable[[Answer], object]:
    return lambda answer: name in obj(answer.body)


_plain("P1", "id starts with chatcmpl-", TOP, lambda a: text(obj(a.body)["id"]).startswith("chatcmpl-"))
_plain("P2", "object is chat.completion", TOP, lambda a: obj(a.body)["object"] == "chat.completion")
_plain("P3", "created is a number", TOP, lambda a: is_number(obj(a.body)["created"]))
_plain("P4", "model is named", TOP, lambda a: text(obj(a.body)["model"]))
_plain("P5", "system_fingerprint is present", TOP, _has("system_fingerprint"), warns=True)
_plain("P6", "choices is an array with something in it", TOP, lambda a: arr(obj(a.body)["choices"]))
_plain("P7", "choices[0].index is 0", TOP, lambda a: a.choice["index"] == 0)
_plain("P8", "choices[0].logprobs is present", TOP, lambda a: "logprobs" in a.choice, warns=True)


@PLAIN.check("P9", "finish_reason is known", group=TOP)
def _p9(answer: Answer) -> Fault:
    known = ("stop", "tool_calls", "length", "content_filter")
    return unless(answer.choice["finish_reason"] in known, f"it is {answer.choice['finish_reason']}")


_plain("P10", "message exists", MESSAGE, lambda a: a.message)
_plain("P11", "message.role is assistant", MESSAGE, lambda a: a.message["role"] == "assistant")
_plain("P12", "content is a string or null", MESSAGE, lambda a: isinstance(a.message["content"], str | None))


@PLAIN.check("P13", "content is not empty", group=MESSAGE)
def _p13(answer: Answer) -> Fault:
    return unless(answer.message.get("tool_calls") or answer.message["content"], "it is")


_plain("P14", "usage is present", USAGE, _has("usage"), warns=True)
for _number, _name in enumerate(("prompt_tokens", "completion_tokens", "total_tokens"), 15):

    @PLAIN.check(f"P{_number}", f"{_name} is a number", group=USAGE)
    def _count(answer: Answer, name: str = _name) -> Fault:
        return unless(is_number(obj(obj(answer.body)["usage"])[name]))


@PLAIN.check("P18", "the total is the sum", group=USAGE)
def _p18(answer: Answer) -> Fault:
    usage = obj(obj(answer.body)["usage"])
    return unless(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"])


def _functions(answer: Answer) -> list[dict[str, Any]]:
    return [obj(obj(call)["function"]) for call in answer.calls]


def _read(arguments: list[str]) -> bool:
    return all(json.loads(one) is not NotThere for one in arguments)


_plain("P19", "tool_calls has something in it", CALLS, lambda a: a.calls)
_plain("P20", "each call has an id", CALLS, lambda a: all(text(obj(call)["id"]) for call in a.calls))
_plain("P21", "each call is a function", CALLS, lambda a: all(call["type"] == "function" for call in a.calls))
_plain("P22", "each function has a name", CALLS, lambda a: all(text(one["name"]) for one in _functions(a)))
_plain(
    "P23",
    "arguments are a string",
    CALLS,
    lambda a: all(isinstance(one["arguments"], str) for one in _functions(a)),
)
_plain("P24", "arguments are JSON", CALLS, lambda a: _read([text(one["arguments"]) for one in _functions(a)]))
_plain("P25", "content is null or empty", CALLS, lambda a: not (a.calls and a.message["content"]))
_plain("P26", "it comes as application/json", TOP, lambda a: _type_of(a.content_type) == "application/json")
_plain(
    "P27",
    "reasoning_content is a string or absent",
    MESSAGE,
    lambda a: _is_text_or_absent(a.message, "reasoning_content"),
)


@PLAIN.check("P28", "no citation mark is left over", "WARN", MESSAGE)
def _p28(answer: Answer) -> Fault:
    return leftover(answer.message.get("content") or "")


_plain("P29", "created is not in the future", TOP, lambda a: obj(a.body)["created"] <= a.at + _SKEW)


def _type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _is_text_or_absent(value: dict[str, Any], name: str) -> bool:
    return name not in value or isinstance(value[name], str)


def leftover(content: str) -> Fault:
    """A citation mark outside of code."""
    found = _MARK.search(_CODE.sub("", content))
    return None if found is None else f"there is {found[0]}"


def _every(answer: Streamed, holds: Callable[[dict[str, Any]], object]) -> bool:
    return bool(answer.chunks) and all(holds(chunk) for chunk in answer.chunks)


def _is_chunk(chunk: dict[str, Any]) -> bool:
    return bool(chunk["object"] == "chat.completion.chunk")


_stream("S1", "at least one chunk came", PROTOCOL, lambda a: a.chunks)
_stream("S2", "every object is chat.completion.chunk", PROTOCOL, lambda a: _every(a, _is_chunk))
_stream(
    "S3", "every choices is an array", PROTOCOL, lambda a: _every(a, lambda c: isinstance(c["choices"], list))
)
_stream("S4", "a first choice exists", PROTOCOL, lambda a: a.choice)
_stream("S5", "id starts with chatcmpl-", TOP, lambda a: text(a.first["id"]).startswith("chatcmpl-"))
_stream("S6", "object is chat.completion.chunk", TOP, lambda a: _is_chunk(a.first))
_stream("S7", "created is a number", TOP, lambda a: is_number(a.first["created"]))
_stream("S8", "model is named", TOP, lambda a: text(a.first["model"]))
_stream("S9", "system_fingerprint is present", TOP, lambda a: "system_fingerprint" in a.first, warns=True)
_stream("S10", "choices is an array", TOP, lambda a: isinstance(a.first["choices"], list))
_stream("S11", "choices[0].index is 0", TOP, lambda a: a.choice["index"] == 0)
_stream("S12", "delta is an object", MESSAGE, lambda a: isinstance(a.choice["delta"], dict))
_stream(
    "S13",
    "the first delta has the role assistant",
    MESSAGE,
    lambda a: a.choice["delta"]["role"] == "assistant",
)
_stream("S14", "choices[0].logprobs is present", TOP, lambda a: "logprobs" in a.choice, warns=True)
_stream("S15", "the first finish_reason is null", PROTOCOL, lambda a: a.choice["finish_reason"] is None)
_stream(
    "S16",
    "the last finish_reason is known",
    PROTOCOL,
    lambda a: a.last["finish_reason"] in ("stop", "tool_calls", "length"),
)
_stream("S17", "the last delta is empty", PROTOCOL, lambda a: a.last["delta"] == {})
_stream("S18", "one id overall", PROTOCOL, lambda a: len({text(chunk["id"]) for chunk in a.chunks}) == 1)
_stream(
    "S19",
    "content or tool calls came",
    MESSAGE,
    lambda a: any(_says(choice) for _, choice in a.stream.choices()),
)
_stream("S20", "it ends with [DONE]", PROTOCOL, lambda a: a.stream.records[-1].text == DONE)


def _says(choice: dict[str, Any]) -> bool:
    return bool(choice["delta"].get("content") or choice["delta"].get("tool_calls"))


def _begun(answer: Streamed) -> list[dict[str, Any]]:
    """The first fragment of each call."""
    return list({one["index"]: one for one in reversed(answer.fragments)}.values())


def _arguments(answer: Streamed) -> bool:
    return all(isinstance(obj(one["function"]).get("arguments", ""), str) for one in answer.fragments)


_stream(
    "S21",
    "each tool fragment has its index",
    CALLS,
    lambda a: all(is_int(one["index"]) for one in a.fragments),
)
_stream("S22", "each call begins with its id", CALLS, lambda a: all(text(one["id"]) for one in _begun(a)))
_stream(
    "S23", "each call is a function", CALLS, lambda a: all(one["type"] == "function" for one in _begun(a))
)
_stream(
    "S24",
    "each call begins with its name",
    CALLS,
    lambda a: all(text(obj(one["function"])["name"]) for one in _begun(a)),
)
_stream("S25", "arguments are strings", CALLS, _arguments)
_stream(
    "S26",
    "it comes as text/event-stream",
    PROTOCOL,
    lambda a: _type_of(a.content_type) == "text/event-stream",
)


@STREAM.check("S27", "reasoning_content is a string or absent", group=MESSAGE)
def _s27(answer: Streamed) -> Fault:
    return first(
        unless(_is_text_or_absent(one["delta"], "reasoning_content")) for _, one in answer.stream.choices()
    )


@STREAM.check("S28", "no citation mark is left over", "WARN", MESSAGE)
def _s28(answer: Streamed) -> Fault:
    return leftover(answer.stream.content)


_stream("S29", "created is not in the future", TOP, lambda a: a.first["created"] <= a.at + _SKEW)
_stream(
    "S30",
    "model and created never change",
    PROTOCOL,
    lambda a: len({(c["model"], c["created"]) for c in a.chunks}) == 1,
)


@STREAM.check("S31", "one chunk has a finish_reason, and nothing is said after it", group=PROTOCOL)
def _s31(answer: Streamed) -> Fault:
    choices = [choice for _, choice in answer.stream.choices()]
    ends = [at for at, choice in enumerate(choices) if choice.get("finish_reason")]
    return unless(len(ends) == 1 and not any(map(_says, choices[ends[0] + 1 :])))
