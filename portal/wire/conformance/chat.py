"""A chat completion, not streamed: profile C of openai-compat §6."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from portal.wire.conformance.checks import (
    Fault,
    NotThere,
    Suite,
    arr,
    first,
    integer,
    is_int,
    obj,
    text,
    unless,
)

FINISHES = ("stop", "length", "tool_calls", "content_filter", "function_call")
DAY = 86_400


@dataclass(frozen=True, slots=True)
class ChatBody:
    """The decoded body; `at` is the time in seconds, `n` as it was asked for."""

    body: Any
    at: float
    n: int = 1

    @property
    def choices(self) -> list[Any]:
        return arr(obj(self.body)["choices"])

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [obj(obj(choice)["message"]) for choice in self.choices]

    @property
    def calls(self) -> list[dict[str, Any]]:
        found = [call for message in self.messages for call in arr(message.get("tool_calls") or [])]
        if not found:
            raise NotThere
        return [obj(call) for call in found]


CHAT: Suite[ChatBody] = Suite()


@CHAT.check("C1", "id starts with chatcmpl-")
def _c1(chat: ChatBody) -> Fault:
    return unless(text(obj(chat.body)["id"]).startswith("chatcmpl-"))


@CHAT.check("C2", "object is chat.completion")
def _c2(chat: ChatBody) -> Fault:
    return unless(obj(chat.body)["object"] == "chat.completion")


@CHAT.check("C3", "created is a time within a day of now")
def _c3(chat: ChatBody) -> Fault:
    return unless(abs(integer(obj(chat.body)["created"]) - chat.at) <= DAY, "it is another day")


@CHAT.check("C4", "model is named")
def _c4(chat: ChatBody) -> Fault:
    return unless(text(obj(chat.body)["model"]), "it is empty")


@CHAT.check("C5", "there are as many choices as were asked for")
def _c5(chat: ChatBody) -> Fault:
    return unless(len(chat.choices) == chat.n, f"there are {len(chat.choices)}")


@CHAT.check("C6", "the choices are numbered from 0")
def _c6(chat: ChatBody) -> Fault:
    return unless([obj(one)["index"] for one in chat.choices] == list(range(len(chat.choices))))


@CHAT.check("C7", "the assistant speaks")
def _c7(chat: ChatBody) -> Fault:
    return unless(all(message["role"] == "assistant" for message in chat.messages))


@CHAT.check("C8", "content is a text, or null beside tool calls")
def _c8(chat: ChatBody) -> Fault:
    return first(
        unless(
            isinstance(message["content"], str) or (message["content"] is None and message.get("tool_calls")),
            "it is neither",
        )
        for message in chat.messages
    )


@CHAT.check("C9", "refusal is there")
def _c9(chat: ChatBody) -> Fault:
    return unless(all("refusal" in message for message in chat.messages), "it is missing")


@CHAT.check("C10", "logprobs is there")
def _c10(chat: ChatBody) -> Fault:
    return unless(all("logprobs" in obj(choice) for choice in chat.choices), "it is missing")


@CHAT.check("C11", "finish_reason is known, and tool_calls where tools are called alone")
def _c11(chat: ChatBody) -> Fault:
    for choice in chat.choices:
        reason, called = choice["finish_reason"], bool(choice["message"].get("tool_calls"))
        if reason not in FINISHES or (reason == "tool_calls") != called:
            return "it is unknown, or does not fit the message"
    return None


@CHAT.check("C12", "usage adds up")
def _c12(chat: ChatBody) -> Fault:
    usage = obj(obj(chat.body)["usage"])
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    if not all(is_int(usage[name]) and usage[name] >= 0 for name in names):
        return "a count is no whole number"
    return unless(usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"], "it does not")


@CHAT.check("C13", "arguments of tool calls are JSON")
def _c13(chat: ChatBody) -> Fault:
    for call in chat.calls:
        json.loads(text(obj(call["function"])["arguments"]))
    return None


@CHAT.check("C14", "tool calls have ids of their own")
def _c14(chat: ChatBody) -> Fault:
    ids = [text(call["id"]) for call in chat.calls]
    return unless(len(set(ids)) == len(ids) and all(ids), "two are the same, or one is empty")


@CHAT.check("C15", "annotations are nested, and lie in the content")
def _c15(chat: ChatBody) -> Fault:
    return first(
        annotation_fault(one, message["content"])
        for message in chat.messages
        for one in arr(message.get("annotations") or [])
    )


def annotation_fault(annotation: object, content: object) -> Fault:
    """Of one annotation of a chat message (openai-compat §2.2)."""
    citation = obj(obj(annotation)["url_citation"])
    start, end = integer(citation["start_index"]), integer(citation["end_index"])
    if obj(annotation)["type"] != "url_citation" or not 0 <= start <= end <= len(text(content)):
        return "one lies outside of the content"
    return unless(is_absolute(citation["url"]) and isinstance(citation["title"], str), "one has no address")


def is_absolute(url: object) -> bool:
    parts = urlsplit(text(url))
    return parts.scheme in ("http", "https") and bool(parts.netloc)


@CHAT.check("C16", "system_fingerprint is there")
def _c16(chat: ChatBody) -> Fault:
    return unless("system_fingerprint" in obj(chat.body), "it is missing")
