"""Functions as they are defined, and what of them may be called."""

from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from proxy.protocol.functions import MOST_FUNCTIONS, Offer, read_offer
from proxy.protocol.functions_schema import MOST_LARGE_PATTERNS, MOST_NODES, MOST_PATTERNS

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


def refused(tools: Any, choice: Any = None, shape: Any = "flat") -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_offer(tools, choice, shape)
    assert caught.value.status == 400
    return caught.value


def test_it_reads_both_shapes_alike() -> None:
    flat = read_offer([WEATHER, CLOCK], {"type": "function", "name": "clock"}, "flat")
    deep = read_offer(
        [nested(WEATHER), nested(CLOCK)], {"type": "function", "function": {"name": "clock"}}, "nested"
    )

    assert [one.as_json() for one in flat.functions] == [one.as_json() for one in deep.functions]
    assert (flat.choice, flat.named) == (deep.choice, deep.named) == ("named", "clock")


def test_it_allows_no_arguments_where_none_are_defined() -> None:
    clock = offer().functions[1]

    assert clock.arguments.fault_of({}) is None
    assert clock.arguments.fault_of({"zone": "UTC"}) == "additionalProperties"


@pytest.mark.parametrize(
    "tool",
    [
        None,
        "weather",
        {},
        {"type": "web_search"},
        {"type": "custom", "name": "x"},
        {"type": "function"},
        {**CLOCK, "name": ""},
        {**CLOCK, "name": "a b"},
        {**CLOCK, "name": "é"},
        {**CLOCK, "name": "x" * 65},
        {**CLOCK, "name": 5},
        {**CLOCK, "description": 5},
        {**CLOCK, "description": "half \ud800"},
        {**CLOCK, "strict": "yes"},
        {**CLOCK, "parameters": {}},
        {**CLOCK, "parameters": "x"},
        {**CLOCK, "parameters": {"type": "array"}},
        {**WEATHER, "strict": True},
        nested(CLOCK),
    ],
    ids=str,
)
def test_it_refuses_a_definition_that_is_none(tool: Any) -> None:
    assert refused([tool]).param == "tools"


@pytest.mark.parametrize("tool", [CLOCK, {"type": "function", "function": "clock"}, {"type": "function"}])
def test_it_refuses_the_flat_shape_where_the_nested_one_belongs(tool: Json) -> None:
    assert refused([tool], shape="nested").param == "tools"


def test_it_refuses_one_name_twice_and_too_many_functions() -> None:
    assert "more than once" in refused([CLOCK, CLOCK]).message
    many = [{**CLOCK, "name": f"f{at}"} for at in range(MOST_FUNCTIONS + 1)]
    assert refused(many).param == "tools"
    assert len(offer(tools=many[:-1]).functions) == MOST_FUNCTIONS


def with_properties(name: str, properties: Json) -> Json:
    return {**CLOCK, "name": name, "parameters": {"type": "object", "properties": properties}}


@pytest.mark.parametrize(
    ("each", "most", "what"),
    [
        (lambda number, at: {"type": "string", "pattern": f"^{number}-{at}$"}, MOST_PATTERNS, "patterns"),
        (
            lambda number, at: {"pattern": f"(x{number}y{at}{{900}}){{9}}"},
            MOST_LARGE_PATTERNS,
            "large patterns",
        ),
        (lambda number, at: {"type": "string"}, MOST_NODES, "schemas"),
    ],
)
def test_it_bounds_what_all_functions_have_together(each: Any, most: int, what: str) -> None:
    """Each of 128 could have as much as one may, and reading them all would take minutes."""
    inner = most // 4 - (most > 1_000)  # the objects around them are schemas, too
    tools = [
        with_properties(f"f{number}", {f"p{at}": each(number, at) for at in range(inner)})
        for number in range(5)
    ]

    assert len(offer(tools=tools[:4]).functions) == 4
    error = refused(tools)
    assert (error.param, f"more than {most:,} {what}" in error.message) == ("tools", True)
    assert error.message.startswith("tools[4].parameters ")


def test_it_counts_a_pattern_once_that_many_functions_have() -> None:
    date = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    tools = [with_properties(f"f{at}", {"day": date}) for at in range(MOST_FUNCTIONS)]
    found = offer(tools=tools).functions
    assert {function.arguments.fault_of({"day": "2026-12-01"}) for function in found} == {None}
    assert {function.arguments.fault_of({"day": "today"}) for function in found} == {"pattern"}


def test_it_says_which_definition_is_wrong() -> None:
    assert refused([CLOCK, {**WEATHER, "strict": True}]).message.startswith(
        "tools[1].parameters must require"
    )
    assert refused([nested({**CLOCK, "name": ""})], shape="nested").message.startswith(
        "tools[0].function.name"
    )


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, ("auto", "")),
        ("auto", ("auto", "")),
        ("none", ("none", "")),
        ("required", ("required", "")),
        ({"type": "function", "name": "clock"}, ("named", "clock")),
    ],
)
def test_it_reads_each_choice(choice: Any, read: tuple[str, str]) -> None:
    found = offer(choice)

    assert (found.choice, found.named) == read


@pytest.mark.parametrize(
    "choice",
    ["any", "", 1, True, [], {}, {"type": "function"}, {"type": "function", "name": "nobody"},
     {"type": "function", "name": 5}, {"type": "allowed_tools", "mode": "auto", "tools": []}],
    ids=str,
)  # fmt: skip
def test_it_refuses_a_choice_that_is_none(choice: Any) -> None:
    assert refused([CLOCK], choice).param == "tool_choice"


def test_it_requires_nothing_without_a_function() -> None:
    assert refused([], "required").param == "tool_choice"
    assert refused([], {"type": "function", "name": "clock"}).param == "tool_choice"
    assert read_offer([], "none", "flat").functions == ()


def test_it_knows_what_may_be_called() -> None:
    named = {"type": "function", "name": "clock"}
    allowed = {
        choice: [one.name for one in offer(given).allowed]
        for choice, given in [("auto", None), ("none", "none"), ("required", "required"), ("named", named)]
    }

    assert allowed == {
        "auto": ["weather", "clock"],
        "none": [],
        "required": ["weather", "clock"],
        "named": ["clock"],
    }
    assert offer(named).silenced().allowed == ()
