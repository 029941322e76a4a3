"""Responses to judge: a good one, and parts of it."""

from __future__ import annotations

from typing import Any

from portal.wire.conformance.responses import ResponseBody

Json = dict[str, Any]
TEXT = "It rains."
CITED: Json = {
    "type": "url_citation", "start_index": 3, "end_index": 8, "url": "https://example.org/", "title": "Rain",
}  # fmt: skip
PART: Json = {"type": "output_text", "text": TEXT, "annotations": [CITED], "logprobs": []}
THOUGHT: Json = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Look up"}]}
SEARCH: Json = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "rain", "queries": ["rain"]},
}
SPOKEN: Json = {
    "id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [PART],
}  # fmt: skip
CALL: Json = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"a":1}',
    "status": "completed",
}
USAGE: Json = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
GOOD: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_800_000_000,
    "status": "completed",
    "completed_at": 1_800_000_001,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "model": "gpt",
    "output": [THOUGHT, SEARCH, SPOKEN, CALL],
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "usage": USAGE,
    "metadata": {"a": "b"},
}
BARE = GOOD | {"output": [], "completed_at": None, "usage": None}
QUEUED = BARE | {"status": "queued"}
FAILED = BARE | {"status": "failed", "error": {"code": "server_error", "message": "no"}}
INCOMPLETE = BARE | {
    "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": USAGE,
}  # fmt: skip
CANCELLED = BARE | {"status": "cancelled"}
TOOL: Json = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def response(body: Any, **known: Any) -> ResponseBody:
    return ResponseBody(body, **known)
