"""The bridge in Responses' shapes: what came before, and what is asked then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.functions_prompt import Bridge
from proxy.protocol.functions_turns import Returned, Said, Turn
from proxy.protocol.response_functions import Past, as_said, from_said, functions_of, read_bridge, turns_of
from proxy.protocol.response_object import FunctionCall
from proxy.protocol.responses import parse_responses

Json = dict[str, Any]
CLOCK: Json = {"type": "function", "name": "clock", "description": "Tells the time"}
STOCK: Json = {
    "type": "function",
    "name": "stock",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
}
USER: Json = {"role": "user", "content": "What time is it?"}
CALL: Json = {"type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"}
BACK: Json = {"type": "function_call_output", "call_id": "call_1", "output": "12:00"}
TURNS: tuple[Turn, ...] = (
    Said("user", "What time is it?"),
    FunctionCall("call_1", "clock", "{}"),
    Returned("call_1", "12:00"),
)


def read(past: Past | None = None, **members: Any) -> Bridge | None:
    request = parse_responses({"input": [USER], **members}, default_model="gpt")
    return read_bridge(request, past or Past())


def document(bridge: Bridge | None) -> Json:
    assert bridge is not None
    asked: Json = json.loads(bridge.query)
    return asked


def test_it_is_a_plain_chat_without_a_function() -> None:
    assert read() is None
    assert read(tools=[{"type": "web_search"}]) is None


def test_it_offers_functions_beside_the_web_search_that_is_always_on() -> None:
    bridge = read(tools=[{"type": "web_search"}, CLOCK], instructions="Be brief")

    assert bridge is not None
    assert [function.name for function in bridge.offer.allowed] == ["clock"]
    assert document(bridge)["instructions"][1:] == ["Be brief"]


def test_it_goes_on_from_what_was_called() -> None:
    bridge = read(Past(TURNS[:2], (CLOCK,)), input=[BACK])

    assert [item["type"] for item in document(bridge)["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


def test_it_lets_nothing_be_called_without_new_definitions() -> None:
    kept, new = read(Past(TURNS, (CLOCK,))), read(Past(TURNS, (CLOCK,)), tools=[STOCK])

    assert kept is not None
    assert (kept.offer.allowed, [one.name for one in kept.offer.functions]) == ((), ["clock"])
    assert new is not None
    assert [one.name for one in new.offer.allowed] == ["stock"]


def test_it_skips_what_was_thought_before() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}

    assert len(document(read(tools=[CLOCK], input=[USER, thought, CALL, BACK]))["input"]) == 3


REFUSED: list[tuple[Json, str]] = [
    ({"input": [USER, CALL, BACK]}, "tools"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tools": [{**STOCK, "strict": True}]}, "tools"),
    ({"tools": [CLOCK], "tool_choice": {"type": "function", "name": "nobody"}}, "tool_choice"),
    ({"tools": [CLOCK], "tool_choice": "any"}, "tool_choice"),
    ({"tools": [CLOCK], "text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"tools": [CLOCK], "instructions": ["Be brief"]}, "instructions"),
    ({"tools": [CLOCK], "input": [USER, CALL]}, "input"),
    ({"tools": [CLOCK], "input": [USER, BACK]}, "input"),
    ({"tools": [CLOCK], "input": [USER, CALL, CALL, BACK]}, "input"),
    ({"tools": [CLOCK], "input": [USER, CALL | {"arguments": "[]"}, BACK]}, "input"),
    ({"tools": [CLOCK], "input": [USER, CALL | {"arguments": "{"}, BACK]}, "input"),
    ({"tools": [CLOCK], "input": [USER, {"role": "assistant", "content": "Noon"}]}, "input"),
    ({"tools": [CLOCK], "input": "x" * 96_000}, "input"),
]


@pytest.mark.parametrize(("members", "param"), REFUSED)
def test_it_refuses_what_does_not_fit_and_names_it(members: Json, param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read(**members)

    assert refused.value.param == param


def test_it_refuses_a_json_format_where_functions_are_kept() -> None:
    with pytest.raises(BadRequest) as refused:
        read(Past(TURNS, (CLOCK,)), text={"format": {"type": "json_object"}})

    assert refused.value.param == "text.format"


WORDS = st.text(max_size=5)
ANY_TURN = st.one_of(
    st.builds(Said, st.sampled_from(["system", "user", "assistant"]), WORDS),
    st.builds(FunctionCall, WORDS, WORDS, WORDS),
    st.builds(Returned, WORDS, WORDS),
)


@given(st.lists(ANY_TURN))
def test_it_keeps_what_was_said_as_json(turns: list[Turn]) -> None:
    assert from_said(json.loads(json.dumps(as_said(turns)))) == tuple(turns)


def test_it_reads_stored_items_and_the_definitions_that_a_response_repeats() -> None:
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "What time is it?"}],
    }

    assert turns_of([message, CALL, BACK]) == TURNS
    assert functions_of([{"type": "web_search"}, CLOCK]) == (CLOCK,)


def test_it_tells_outputs_as_words_where_no_function_plays_a_part() -> None:
    said = [(message.role, message.text) for message in Past(TURNS).messages]

    assert said == [("user", "What time is it?"), ("user", "[tool output call_1]: 12:00")]
