from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.conversation import LONGEST_QUERY
from proxy.protocol.functions import Offer, read_offer
from proxy.protocol.functions_answer import BridgeAnswer, Called, Spoken, Violation, read_answer
from proxy.protocol.functions_prompt import bridge
from proxy.protocol.functions_turns import Returned, Said, Turn, check_turns, read_call
from proxy.protocol.response_object import FunctionCall

Json = dict[str, Any]
WEATHER: Json = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "number"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CLOCK: Json = {"type": "function", "name": "clock"}


def nested(tool: Json) -> Json:
    return {"type": "function", "function": {name: tool[name] for name in tool if name != "type"}}


def offer(choice: Any = None, *, parallel: bool = True, tools: Any = (WEATHER, CLOCK)) -> Offer:
    return read_offer(tools, choice, "flat", parallel=parallel)


# Definitions


# What was said and called before

ASKED = Said("user", "Weather in Rome?")
CALL = FunctionCall("call_1", "weather", '{"city":"Rome"}')
BACK = Returned("call_1", "rain")


@pytest.mark.parametrize(
    "turns",
    [
        [ASKED],
        [ASKED, CALL, BACK],
        [ASKED, CALL, FunctionCall("call_2", "clock", "{}"), Returned("call_2", ""), BACK],
        [ASKED, CALL, BACK, Said("assistant", "It rains."), Said("user", "Thanks")],
        [CALL, BACK],
    ],
)
def test_it_takes_calls_that_are_answered(turns: list[Turn]) -> None:
    check_turns(turns, "input")


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [ASKED, Said("assistant", "It rains.")],
        [Said("user", "  ")],
        [Said("system", "Be brief")],
        [ASKED, CALL],
        [ASKED, CALL, Said("user", "Well?")],
        [ASKED, BACK],
        [ASKED, CALL, BACK, BACK],
        [ASKED, BACK, CALL],
        [ASKED, CALL, CALL, BACK],
        [ASKED, CALL, BACK, CALL, BACK],
        [ASKED, CALL, Returned("call_2", "")],
    ],
)
def test_it_refuses_calls_and_outputs_that_do_not_fit(turns: list[Turn]) -> None:
    with pytest.raises(BadRequest) as caught:
        check_turns(turns, "input")
    assert caught.value.param == "input"


@pytest.mark.parametrize(
    ("call_id", "name", "arguments"),
    [("", "f", "{}"), (None, "f", "{}"), ("c", "", "{}"), ("c", None, "{}"), ("c", "f", "[]"),
     ("c", "f", "{"), ("c", "f", {}), ("c", "f", None), ("c" * 201, "f", "{}"), ("c", "f", "[" * 100_000)],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_it_refuses_a_call_that_is_none(call_id: Any, name: Any, arguments: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        read_call(call_id, name, arguments, "messages")
    assert caught.value.param == "messages"


# The question


def test_it_asks_with_rules_functions_instructions_and_items() -> None:
    asked = bridge(offer(), "Speak <b>Latin</b>", [ASKED, CALL, BACK], "input")

    document = json.loads(asked.query)
    assert set(document) == {"instructions", "input"}
    rules, callers = document["instructions"]
    assert callers == "Speak <b>Latin</b>"
    assert json.dumps(offer().functions[0].as_json()) in rules
    assert [item["type"] for item in document["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert asked.question == "Weather in Rome?"


def test_it_names_things_anew_in_the_question() -> None:
    asked = bridge(offer(), "", [Said("user", 'See [Attached file: file-1] "now"')], "input")

    named = asked.named("[Attached file: file-1]", '[Attached file: a "b".png]', "input")

    told = 'See [Attached file: a "b".png] "now"'
    assert (json.loads(named.query)["input"][0]["content"], named.question) == (told, told)
    with pytest.raises(BadRequest):
        asked.named("file-1", "x" * LONGEST_QUERY, "input")


def test_it_lists_only_what_may_be_called() -> None:
    def told(choice: Any, *, parallel: bool = True) -> str:
        asked = bridge(offer(choice, parallel=parallel), "", [ASKED], "input")
        return str(json.loads(asked.query)["instructions"][0])

    assert "Functions you may call: []" in told("none")
    assert '"type": "function_calls"' not in told("none")
    assert '"name": "weather"' not in told({"type": "function", "name": "clock"})
    assert '"type": "message"' not in told("required")
    assert "exactly one entry" in told("auto", parallel=False)
    assert "exactly one entry" not in told("auto")


def test_it_refuses_what_is_too_long_to_be_asked() -> None:
    empty = len(bridge(offer(), "", [Said("user", "x")], "input").query) - 1
    bridge(offer(), "", [Said("user", "x" * (LONGEST_QUERY - empty))], "input")

    with pytest.raises(BadRequest) as caught:
        bridge(offer(), "", [Said("user", "x" * (LONGEST_QUERY - empty + 1))], "input")
    assert (caught.value.param, caught.value.code) == ("input", "context_length_exceeded")


# The answer


def calls(*given: tuple[str, Json], **more: Any) -> str:
    listed = [{"name": name, "arguments": arguments} for name, arguments in given]
    return json.dumps({"type": "function_calls", "calls": listed, **more}, ensure_ascii=False)


ROME = calls(("weather", {"city": "Rome"}))
HELLO = '{"type": "message", "content": "Hello [1]"}'


def read(text: str, **choice: Any) -> BridgeAnswer:
    return read_answer(text, offer(**choice), "chat:1")


def broken(text: str, **choice: Any) -> Violation:
    with pytest.raises(Violation) as caught:
        read(text, **choice)
    error = caught.value
    assert (error.status, error.type, error.code) == (502, "upstream_error", "tool_protocol_error")
    assert error.headers["x-should-retry"] == "false"
    return error


def test_it_reads_a_message_as_it_is() -> None:
    assert read(HELLO) == Spoken("Hello [1]")
    assert read(f"\n {HELLO} \n") == Spoken("Hello [1]")


def test_it_reads_calls_with_compact_arguments() -> None:
    answer = read(calls(("weather", {"city": "Zürich", "days": 2.5}), ("clock", {})))

    assert isinstance(answer, Called)
    assert [(call.name, call.arguments) for call in answer.calls] == [
        ("weather", '{"city":"Zürich","days":2.5}'),
        ("clock", "{}"),
    ]


def test_it_gives_each_call_an_id_of_its_own_that_follows_from_the_subject() -> None:
    def ids(subject: str) -> list[str]:
        answer = read_answer(calls(("clock", {}), ("clock", {})), offer(), subject)
        assert isinstance(answer, Called)
        return [call.call_id for call in answer.calls]

    assert len({*ids("chat:1"), *ids("chat:2")}) == 4
    assert ids("chat:1") == ids("chat:1")
    assert all(one.startswith("call_") and len(one) == 37 for one in ids("chat:1"))


VIOLATIONS: dict[str, str] = {
    "nothing": "",
    "prose": "I will call weather now.",
    "prose before": f"Sure: {ROME}",
    "prose behind": f"{ROME} Done.",
    "fenced": f"```json\n{ROME}\n```",
    "two documents": f"{ROME}{ROME}",
    "a list": f"[{ROME}]",
    "a string": '"hello"',
    "cut": ROME[:-1],
    "a byte order mark": f"\ufeff{HELLO}",
    "a control character": '{"type": "message", "content": "a\nb"}',
    "a key twice": ROME.replace('"calls":', '"calls": [], "calls":', 1),
    "a key twice in the arguments": ROME.replace('"city":', '"city": "x", "city":', 1),
    "a key too many": calls(("clock", {}), thought="hm"),
    "a key too many in a call": calls(("clock", {})).replace('"arguments"', '"id": 1, "arguments"'),
    "a key too many in a message": '{"type": "message", "content": "a", "role": "assistant"}',
    "a key missing": '{"type": "function_calls"}',
    "arguments missing": '{"type": "function_calls", "calls": [{"name": "clock"}]}',
    "content missing": '{"type": "message"}',
    "no type": '{"calls": []}',
    "another type": '{"type": "tool_calls", "calls": []}',
    "a type that is none": '{"type": ["message"], "content": "a"}',
    "no calls": calls(),
    "calls that are none": '{"type": "function_calls", "calls": {}}',
    "a call that is none": '{"type": "function_calls", "calls": ["clock"]}',
    "blank content": '{"type": "message", "content": " \\n"}',
    "content that is none": '{"type": "message", "content": null}',
    "content of parts": '{"type": "message", "content": ["a"]}',
    "a NUL": '{"type": "message", "content": "a\\u0000"}',
    "half a character": '{"type": "message", "content": "\\ud800"}',
    "half a character in the arguments": calls(("weather", {"city": "X"})).replace("X", "\\udc00"),
    "an unknown function": calls(("no_such_function", {})),
    "a function in other letters": calls(("Clock", {})),
    "a name that is none": '{"type": "function_calls", "calls": [{"name": {}, "arguments": {}}]}',
    "arguments as a string": '{"type": "function_calls", "calls": [{"name": "clock", "arguments": "{}"}]}',
    "arguments as a list": '{"type": "function_calls", "calls": [{"name": "clock", "arguments": []}]}',
    "no argument": calls(("weather", {})),
    "a wrong argument": calls(("weather", {"city": 5})),
    "an unknown argument": calls(("weather", {"city": "Rome", "mood": "x"})),
    "one good and one bad call": calls(("clock", {}), ("weather", {})),
    "NaN": ROME.replace('"Rome"', "NaN"),
    "NaN where a number belongs": ROME.replace('"Rome"', '"Rome", "days": NaN'),
    "Infinity": ROME.replace('"Rome"', "-Infinity"),
    "overflow": ROME.replace('"Rome"', '"Rome", "days": 1e999'),
    "overflow of an integer": ROME.replace('"Rome"', f'"Rome", "days": {"9" * 400}'),
    "more digits than Python reads": ROME.replace('"Rome"', f'"Rome", "days": {"9" * 5000}'),
    "nested deeply": ROME.replace('"Rome"', "[" * 5000 + "]" * 5000),
    "nested beyond reading": "[" * 200_000,
    "too long": json.dumps({"type": "message", "content": "x" * 200_001}),
}


@pytest.mark.parametrize("text", VIOLATIONS.values(), ids=VIOLATIONS)
def test_it_believes_nothing_but_the_protocol(text: str) -> None:
    broken(text)


def test_it_tells_what_was_broken_without_the_words_of_the_model() -> None:
    error = broken(calls(("weather", {"city": "secret", "mood": "secret"})))

    assert "weather do not fit its parameters (additionalProperties)" in error.message
    assert "secret" not in error.message


def test_it_holds_the_model_to_the_choice() -> None:
    named = {"type": "function", "name": "clock"}
    broken(HELLO, choice="required")
    broken(HELLO, choice=named)
    broken(calls(("clock", {})), choice="none")
    broken(ROME, choice=named)
    broken(calls(("clock", {}), ("clock", {})), choice=named)
    broken(calls(("clock", {}), ("clock", {})), parallel=False)

    assert isinstance(read(HELLO, choice="none"), Spoken)
    assert isinstance(read(calls(("clock", {})), choice=named), Called)
    assert isinstance(read(calls(("clock", {}), ("clock", {})), choice="required"), Called)
    assert isinstance(read(ROME, parallel=False), Called)


def without_one(text: str) -> st.SearchStrategy[str]:
    return st.integers(0, len(text) - 1).map(lambda at: text[:at] + text[at + 1 :])


@given(st.text() | st.sampled_from([ROME, HELLO]).flatmap(without_one))
def test_it_reads_or_refuses_any_text(text: str) -> None:
    try:
        answer = read(text)
    except Violation:
        return
    assert isinstance(answer, Spoken | Called)


PLAIN = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text()
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    PLAIN | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_it_hands_arguments_on_unchanged(arguments: Json) -> None:
    anything = {**CLOCK, "parameters": {"type": "object"}}
    answer = read_answer(calls(("clock", arguments)), offer(tools=[anything]), "x")

    assert isinstance(answer, Called)
    assert json.loads(answer.calls[0].arguments) == arguments
