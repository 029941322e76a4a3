"""A Response object: profile R of openai-compat §6."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.wire.conformance.chat import is_absolute
from portal.wire.conformance.checks import (
    Fault,
    NotThere,
    Profile,
    Suite,
    arr,
    first,
    integer,
    is_int,
    is_number,
    needed,
    obj,
    text,
    unless,
)

STATUSES = ("queued", "in_progress", "completed", "failed", "incomplete", "cancelled")
REASONS = ("max_output_tokens", "content_filter", "max_messages", "steered")
ITEM_TYPES = frozenset(
    {
        "message", "file_search_call", "function_call", "function_call_output", "web_search_call",
        "computer_call", "computer_call_output", "reasoning", "program", "program_output",
        "tool_search_call", "tool_search_output", "additional_tools", "compaction",
        "image_generation_call", "code_interpreter_call", "local_shell_call", "local_shell_call_output",
        "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output", "mcp_call",
        "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "custom_tool_call",
        "custom_tool_call_output",
    }
)  # fmt: skip
AGENT_ITEMS = frozenset({"search_results"})
ERROR_CODES = frozenset(
    {
        "server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch",
        "bio_policy", "misalignment_policy_violation", "vector_store_timeout", "invalid_image",
        "invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large",
        "image_too_small", "image_parse_error", "image_content_policy_violation", "invalid_image_mode",
        "image_file_too_large", "unsupported_image_media_type", "empty_image_file",
        "failed_to_download_image", "image_file_not_found",
    }
)  # fmt: skip
_NOT_NULL = ("id", "object", "created_at", "model", "output", "parallel_tool_calls", "tool_choice", "tools")
_PRESENT = ("error", "incomplete_details", "instructions", "metadata", "temperature", "top_p")
_ECHOED = ("tools", "tool_choice", "temperature")
_MOST_PAIRS, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """The decoded body. What else is known lets more be checked.

    `request` is the body that asked for it; `told` the object that ended its stream or its creation;
    `after_delete` the status of a retrieval once it was deleted; `cancels` the bodies of two cancels.
    """

    body: Any
    profile: Profile = "strict"
    request: Mapping[str, Any] | None = None
    told: Any = None
    after_delete: int | None = None
    cancels: tuple[Any, Any] | None = None

    @property
    def status(self) -> str:
        return text(obj(self.body)["status"])

    @property
    def items(self) -> list[dict[str, Any]]:
        return [obj(item) for item in arr(obj(self.body)["output"])]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The items of one type; there must be one for a check to look at."""
        found = [item for item in self.items if item["type"] == kind]
        if not found:
            raise NotThere
        return found

    def parts(self) -> Iterator[dict[str, Any]]:
        """The texts of its messages."""
        for item in self.of("message"):
            yield from (obj(part) for part in arr(item["content"]) if part["type"] == "output_text")


RESPONSE: Suite[ResponseBody] = Suite()


@RESPONSE.check("R1", "id starts with resp_")
def _r1(response: ResponseBody) -> Fault:
    return unless(text(obj(response.body)["id"]).startswith("resp_"))


@RESPONSE.check("R2", "object is response")
def _r2(response: ResponseBody) -> Fault:
    return unless(obj(response.body)["object"] == "response")


@RESPONSE.check("R3", "every required member is there")
def _r3(response: ResponseBody) -> Fault:
    body = obj(response.body)
    missing = [name for name in _NOT_NULL if body.get(name) is None]
    missing += [name for name in _PRESENT if name not in body]
    return unless(not missing, f"missing: {', '.join(missing)}")


@RESPONSE.check("R4", "status is known")
def _r4(response: ResponseBody) -> Fault:
    return unless(response.status in STATUSES, "it is another word")


@RESPONSE.check("R5", "error, incomplete_details, completed_at and usage fit the status")
def _r5(response: ResponseBody) -> Fault:
    body, status = obj(response.body), response.status
    if (body["error"] is not None) != (status == "failed"):
        return "error does not"
    if (body["incomplete_details"] is not None) != (status == "incomplete"):
        return "incomplete_details does not"
    strict = response.profile == "strict"
    if status == "incomplete" and strict and body["incomplete_details"]["reason"] not in REASONS:
        return "the reason is another word"
    if (body.get("completed_at") is not None) != (status == "completed"):
        return "completed_at does not"
    ended = status in ("completed", "incomplete")
    begun = status in ("queued", "in_progress")
    usage = body.get("usage") is not None
    return unless(not (ended and not usage) and not (begun and usage), "usage does not")


@RESPONSE.check("R5a", "an error has a message and a code that clients know", "WARN")
def _r5a(response: ResponseBody) -> Fault:
    error = obj(response.body)["error"]
    needed(error)
    if not text(error["message"]):
        return "there is no message"
    return unless(response.profile == "agent" or error["code"] in ERROR_CODES, f"the code is {error['code']}")


@RESPONSE.check("R6", "output items have known types and ids of their own")
def _r6(response: ResponseBody) -> Fault:
    known = ITEM_TYPES | AGENT_ITEMS if response.profile == "agent" else ITEM_TYPES
    strange = [item["type"] for item in response.items if item["type"] not in known]
    if strange:
        return f"unknown: {', '.join(strange)}"
    ids = [text(item["id"]) for item in response.items if item["type"] not in AGENT_ITEMS]
    return unless(len(set(ids)) == len(ids) and all(ids), "two ids are the same, or one is empty")


@RESPONSE.check("R7", "nothing is in progress in a completed response")
def _r7(response: ResponseBody) -> Fault:
    if response.status != "completed":
        raise NotThere
    return unless(all(item.get("status") != "in_progress" for item in response.items), "an item is")


@RESPONSE.check("R8", "reasoning has a summary")
def _r8(response: ResponseBody) -> Fault:
    return first(
        unless(part["type"] == "summary_text" and isinstance(part["text"], str))
        for item in response.of("reasoning")
        for part in arr(item["summary"])
    )


@RESPONSE.check("R9", "a text has its annotations and logprobs")
def _r9(response: ResponseBody) -> Fault:
    parts = list(response.parts())
    lists = all(isinstance(part["annotations"], list) for part in parts)
    probabilities = response.profile == "agent" or all(isinstance(part["logprobs"], list) for part in parts)
    return unless(lists and probabilities, "one has not")


@RESPONSE.check("R10", "citations are flat, and mark something in their text")
def _r10(response: ResponseBody) -> Fault:
    return first(
        citation_fault(obj(one), text(part["text"]))
        for part in response.parts()
        for one in arr(part["annotations"])
    )


def citation_fault(citation: Mapping[str, Any], cited: str) -> Fault:
    """Of one annotation of a Responses text (openai-compat §3.3); other kinds than URLs are let be."""
    if citation["type"] != "url_citation":
        return None
    start, end = integer(citation["start_index"]), integer(citation["end_index"])
    if not 0 <= start < end <= len(cited) or not cited[start:end].strip():
        return "one marks nothing"
    return unless(is_absolute(citation["url"]) and isinstance(citation["title"], str), "one has no address")


@RESPONSE.check("R11", "a web search says what it did")
def _r11(response: ResponseBody) -> Fault:
    return first(action_fault(item) for item in response.of("web_search_call"))


def action_fault(item: Mapping[str, Any]) -> Fault:
    action = obj(item["action"])
    asked = {"search": "query", "open_page": "url", "find_in_page": "pattern"}.get(action["type"])
    return unless(asked and isinstance(action[asked], str), "its action is of an unknown type")


@RESPONSE.check("R12", "a function call has its call_id, and JSON arguments")
def _r12(response: ResponseBody) -> Fault:
    for item in response.of("function_call"):
        if not (text(item["call_id"]) and text(item["name"])):
            return "one has no call_id, or no name"
        json.loads(text(item["arguments"]))
    return None


@RESPONSE.check("R13", "usage adds up, with its details")
def _r13(response: ResponseBody) -> Fault:
    needed(obj(response.body).get("usage"))
    usage = obj(response.body["usage"])
    counts = [usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")]
    if not all(is_int(count) and count >= 0 for count in counts) or counts[0] + counts[1] != counts[2]:
        return "it does not add up"
    inside = obj(usage["input_tokens_details"]), obj(usage["output_tokens_details"])
    written = response.profile == "agent" or is_int(inside[0]["cache_write_tokens"])
    whole = written and is_int(inside[0]["cached_tokens"]) and is_int(inside[1]["reasoning_tokens"])
    return unless(whole, "a detail is missing")


@RESPONSE.check("R14", "it was completed after it was created")
def _r14(response: ResponseBody) -> Fault:
    body = obj(response.body)
    needed(body.get("completed_at"))
    created, completed = body["created_at"], body["completed_at"]
    return unless(is_number(created) and is_number(completed) and created <= completed)


@RESPONSE.check("R15", "tools, tool_choice and temperature repeat the request")
def _r15(response: ResponseBody) -> Fault:
    request = response.request
    if request is None:
        raise NotThere
    body = obj(response.body)
    for name in _ECHOED:
        if request.get(name) is not None and not _repeats(body[name], request[name]):
            return f"{name} does not"
    return None


def _repeats(told: object, asked: object) -> bool:
    """Whether nothing that was asked for is missing; a server may add its defaults."""
    if isinstance(asked, dict) and isinstance(told, dict):
        return all(name in told and _repeats(told[name], value) for name, value in asked.items())
    if isinstance(asked, list) and isinstance(told, list):
        return len(asked) == len(told) and all(map(_repeats, told, asked))
    return told == asked


@RESPONSE.check("R16", "metadata repeats the request, within its limits")
def _r16(response: ResponseBody) -> Fault:
    metadata = obj(obj(response.body)["metadata"] or {})
    fits = len(metadata) <= _MOST_PAIRS and all(
        len(key) <= _LONGEST_KEY and len(text(value)) <= _LONGEST_VALUE for key, value in metadata.items()
    )
    asked = (response.request or {}).get("metadata")
    return unless(fits and (asked is None or asked == metadata), "it differs, or is too large")


@RESPONSE.check("R17", "a retrieval gives what was told at the end")
def _r17(response: ResponseBody) -> Fault:
    needed(response.told)
    return unless(response.body == response.told, "it differs")


@RESPONSE.check("R18", "what was deleted is not found")
def _r18(response: ResponseBody) -> Fault:
    needed(response.after_delete)
    return unless(response.after_delete == 404, f"status {response.after_delete}")


@RESPONSE.check("R19", "cancelling twice gives the same object")
def _r19(response: ResponseBody) -> Fault:
    if response.cancels is None:
        raise NotThere
    return unless(response.cancels[0] == response.cancels[1], "it differs")
