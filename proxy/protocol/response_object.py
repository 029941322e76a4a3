"""The Response object of OpenAI's Responses API and its output items (openai-compat §§3.2-3.3, 3.7).

The whole frame stands in every answer, whatever its status, and its keys always come in the same
order. Items are JSON from the start: they are stored, streamed and answered as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from portal.wire.errors import Problem
from proxy.protocol.delta import Citation

Json = dict[str, Any]
Status = Literal["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]
Prefix = Literal["msg_", "rs_", "ws_", "fc_", "fco_"]

ERROR_CODES = frozenset({"server_error", "rate_limit_exceeded", "invalid_prompt", "tool_protocol_error"})
"""What `error.code` may say of a chat response: OpenAI's words, and the function bridge's own one."""
TERMINAL = frozenset({"completed", "failed", "incomplete", "cancelled"})


@dataclass(frozen=True, slots=True)
class Head:
    """What of a response is known when it is asked for, and never changes.

    `echo` holds the members of the request that the answer repeats (`ResponsesRequest.echo`);
    `conversation` is "" outside of one, `previous` likewise.
    """

    id: str
    created_at: int
    model: str
    echo: Mapping[str, Any] = field(default_factory=dict)
    previous: str = ""
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call that the client is to make. `arguments` is compact JSON."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, estimated (proxy-contract §1)."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0

    def as_json(self) -> Json:
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.input_tokens + self.output_tokens,
        }


def item_id(prefix: Prefix, response_id: str, place: str) -> str:
    """The id of an item: the same whenever it is made again, in whichever process.

    `place` is where it stands in its response, as in "out.2".
    """
    return prefix + hashlib.sha256(f"{response_id}:{place}".encode()).hexdigest()[:32]


def frame(
    head: Head,
    status: Status,
    *,
    output: Sequence[Json] = (),
    completed_at: int | None = None,
    usage: Usage | None = None,
    error: Json | None = None,
    incomplete_reason: str | None = None,
    sonde: Mapping[str, Any] | None = None,
) -> Json:
    """The whole object. `sonde` is our own member (SPEC 10.9), left out without anything to say."""
    echo = head.echo
    whole: Json = {
        "id": head.id,
        "object": "response",
        "created_at": head.created_at,
        "status": status,
        "background": bool(echo.get("background")),
        "completed_at": completed_at,
        "error": error,
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "instructions": echo.get("instructions"),
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": head.model,
        "output": list(output),
        "output_text": output_text(output),
        "parallel_tool_calls": echo.get("parallel_tool_calls", True),
        "previous_response_id": head.previous or None,
        "conversation": {"id": head.conversation} if head.conversation else None,
        "reasoning": echo.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": None,
        "store": echo.get("store", True),
        "temperature": echo.get("temperature"),
        "text": echo.get("text") or {"format": {"type": "text"}},
        "tool_choice": echo.get("tool_choice") or "auto",
        "tools": echo.get("tools") or [],
        "top_logprobs": None,
        "top_p": echo.get("top_p"),
        "truncation": echo.get("truncation") or "disabled",
        "usage": usage.as_json() if usage else None,
        "user": echo.get("user"),
        "metadata": echo.get("metadata") or {},
    }
    return whole | {"sonde": dict(sonde)} if sonde else whole


def error_of(problem: Problem) -> Json:
    """What a failed response says. A code that OpenAI's clients do not know becomes `server_error`."""
    code = problem.code if problem.code in ERROR_CODES else "server_error"
    return {"code": code, "message": problem.message}


def output_text(output: Iterable[Json]) -> str:
    """The text of all messages, joined, as the SDKs compute it."""
    return "".join(
        part["text"]
        for item in output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )


def message_item(id: str, status: str, parts: Iterable[Json] = ()) -> Json:
    return {"id": id, "type": "message", "status": status, "role": "assistant", "content": list(parts)}


def text_part(text: str = "", annotations: Iterable[Json] = ()) -> Json:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def url_citation(citation: Citation) -> Json:
    """The flat shape of Responses; offsets are code points of the part's text, end exclusive."""
    source = citation.source
    return {
        "type": "url_citation",
        "start_index": citation.start,
        "end_index": citation.end,
        "url": source.url,
        "title": source.title or source.url,
    }


def reasoning_item(id: str, text: str = "") -> Json:
    return {"id": id, "type": "reasoning", "summary": [summary_part(text)] if text else []}


def summary_part(text: str = "") -> Json:
    return {"type": "summary_text", "text": text}


def search_item(id: str, status: str, query: str, sources: Sequence[str] | None = None) -> Json:
    """A search of the upstream's own; `sources` are addresses, None where nobody asked for them."""
    action: Json = {"type": "search", "query": query, "queries": [query]}
    if sources is not None:
        action["sources"] = [{"type": "url", "url": url} for url in sources]
    return {"id": id, "type": "web_search_call", "status": status, "action": action}


def open_page_item(id: str, status: str, url: str) -> Json:
    return {
        "id": id,
        "type": "web_search_call",
        "status": status,
        "action": {"type": "open_page", "url": url},
    }


def function_call_item(id: str, status: str, call: FunctionCall, arguments: str | None = None) -> Json:
    """`arguments` stand in for the call's own while they are still on their way."""
    return {
        "id": id,
        "type": "function_call",
        "status": status,
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments if arguments is None else arguments,
    }


def list_page(items: Sequence[Json], *, has_more: bool) -> Json:
    """One page of input items (openai-compat §3.7)."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }


def deleted(response_id: str) -> Json:
    return {"id": response_id, "object": "response", "deleted": True}
