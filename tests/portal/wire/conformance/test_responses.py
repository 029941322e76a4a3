from __future__ import annotations

import typing
from typing import Any

import pytest
from openai.types.responses import ResponseError, ResponseOutputItem, ResponseStreamEvent

from portal.wire.conformance.checks import faults
from portal.wire.conformance.responses import ERROR_CODES, ITEM_TYPES, RESPONSE
from portal.wire.conformance.responses_stream import TYPES
from tests.portal.wire.conformance.judging import Change, changed, drop, fails, passes, put, verdict
from tests.portal.wire.conformance.response_bodies import (
    CANCELLED,
    FAILED,
    GOOD,
    INCOMPLETE,
    QUEUED,
    SPOKEN,
    TEXT,
    TOOL,
    USAGE,
    Json,
    response,
)


def test_it_passes_good_bodies() -> None:
    seen = passes(RESPONSE, response(GOOD))
    assert seen == {f"R{number}" for number in (*range(1, 15), 16)}
    for body in (QUEUED, FAILED, INCOMPLETE, CANCELLED, QUEUED | {"status": "in_progress"}):
        assert passes(RESPONSE, response(body)) <= seen | {"R5a"}


def test_it_looks_at_more_when_more_is_known() -> None:
    asked = {"tools": [TOOL], "tool_choice": "auto", "metadata": {"a": "b"}, "temperature": None}
    body = GOOD | {"tools": [TOOL | {"strict": None}]}
    known = {"request": asked, "told": body, "after_delete": 404, "cancels": (CANCELLED, dict(CANCELLED))}

    assert passes(RESPONSE, response(body, **known)) >= {"R15", "R16", "R17", "R18", "R19"}


def test_it_lets_the_agent_api_say_things_its_own_way() -> None:
    found = {"type": "search_results", "queries": ["a"], "results": []}
    plain = {"type": "output_text", "text": TEXT, "annotations": []}
    body = GOOD | {"output": [found, SPOKEN | {"content": [plain]}]}
    broke = FAILED | {"error": {"code": "insufficient_quota", "message": "no"}}

    passes(RESPONSE, response(body, profile="agent"))
    passes(RESPONSE, response(broke, profile="agent"))
    fails(RESPONSE, response(body), "R6")
    fails(RESPONSE, response(body), "R9")
    fails(RESPONSE, response(broke), "R5a")
    assert faults(RESPONSE.run(response(broke))) == []


BAD: list[tuple[str, Json, Change]] = [
    ("R1", GOOD, put("id", to="chatcmpl-1")),
    ("R2", GOOD, put("object", to="list")),
    ("R3", GOOD, drop("instructions")),
    ("R3", GOOD, put("tools", to=None)),
    ("R4", GOOD, put("status", to="done")),
    ("R5", GOOD, put("completed_at", to=None)),
    ("R5", GOOD, put("error", to={"code": None, "message": "no"})),
    ("R5", GOOD, put("usage", to=None)),
    ("R5", QUEUED, put("usage", to=USAGE)),
    ("R5", FAILED, put("error", to=None)),
    ("R5", FAILED, put("completed_at", to=1_800_000_001)),
    ("R5", INCOMPLETE, put("incomplete_details", "reason", to="cancelled")),
    ("R5", INCOMPLETE, put("incomplete_details", to=None)),
    ("R5", CANCELLED, put("incomplete_details", to={"reason": "steered"})),
    ("R5a", FAILED, put("error", "message", to="")),
    ("R5a", FAILED, put("error", "code", to="tool_protocol_error")),
    ("R6", GOOD, put("output", 0, "type", to="thinking")),
    ("R6", GOOD, put("output", 0, "id", to="ws_1")),
    ("R7", GOOD, put("output", 2, "status", to="in_progress")),
    ("R8", GOOD, drop("output", 0, "summary")),
    ("R9", GOOD, drop("output", 2, "content", 0, "annotations")),
    ("R9", GOOD, drop("output", 2, "content", 0, "logprobs")),
    ("R10", GOOD, put("output", 2, "content", 0, "annotations", 0, "end_index", to=99)),
    ("R10", GOOD, put("output", 2, "content", 0, "annotations", 0, "end_index", to=3)),
    ("R10", GOOD, put("output", 2, "content", 0, "annotations", 0, to={"type": "url_citation"})),
    ("R11", GOOD, drop("output", 1, "action")),
    ("R11", GOOD, put("output", 1, "action", "type", to="browse")),
    ("R12", GOOD, put("output", 3, "arguments", to="{")),
    ("R12", GOOD, put("output", 3, "call_id", to="")),
    ("R13", GOOD, put("usage", "total_tokens", to=4)),
    ("R13", GOOD, drop("usage", "output_tokens_details")),
    ("R13", GOOD, drop("usage", "input_tokens_details", "cache_write_tokens")),
    ("R14", GOOD, put("completed_at", to=1)),
    ("R16", GOOD, put("metadata", to={f"k{at}": "v" for at in range(17)})),
    ("R16", GOOD, put("metadata", "a", to="x" * 513)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "good", "change"), BAD, ids=[f"{case[0]}-{at}" for at, case in enumerate(BAD)]
)
def test_it_fails_bad_bodies(id: str, good: Json, change: Change) -> None:
    fails(RESPONSE, response(changed(good, change)), id)


KNOWN: list[tuple[str, Json]] = [
    ("R15", {"request": {"tools": [TOOL]}}),
    ("R15", {"request": {"tool_choice": "required"}}),
    ("R16", {"request": {"metadata": {"a": "c"}}}),
    ("R17", {"told": GOOD | {"model": "sonnet"}}),
    ("R18", {"after_delete": 200}),
    ("R19", {"cancels": (CANCELLED, FAILED)}),
]


@pytest.mark.parametrize(("id", "known"), KNOWN)
def test_it_fails_bodies_by_what_else_is_known(id: str, known: Json) -> None:
    fails(RESPONSE, response(GOOD, **known), id)


def test_it_has_a_bad_body_for_each_check() -> None:
    assert {case[0] for case in BAD} | {case[0] for case in KNOWN} == {check.id for check in RESPONSE.checks}


# What the newest SDK knows


def _words(union: Any) -> set[str]:
    inner = typing.get_args(union)[0] if typing.get_origin(union) is typing.Annotated else union
    kinds = (one if not typing.get_args(one) else typing.get_args(one)[0] for one in typing.get_args(inner))
    return {word for kind in kinds for word in typing.get_args(kind.model_fields["type"].annotation)}


def test_it_knows_the_words_that_the_sdk_knows() -> None:
    assert _words(ResponseStreamEvent) == TYPES
    assert _words(ResponseOutputItem) == ITEM_TYPES
    assert set(typing.get_args(ResponseError.model_fields["code"].annotation)) == ERROR_CODES


def test_one_check_tells_of_one_fault() -> None:
    result = verdict(RESPONSE, response(changed(GOOD, drop("instructions"))), "R3")

    assert (result.verdict, result.detail) == ("FAIL", "missing: instructions")
