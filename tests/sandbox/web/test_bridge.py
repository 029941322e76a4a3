"""A model that is offered functions in its prompt (§17.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.web.bridge import example, offered
from sandbox.web.markers import BRIDGES
from tests.sandbox.web.listener import WebVisitor

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather somewhere",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["C", "F"]},
            "days": {"type": "integer", "minimum": 2},
        },
        "required": ["city", "unit", "days"],
        "additionalProperties": False,
    },
}
STOCK = {"name": "stock", "description": "Counts", "parameters": {"type": "object", "properties": {}}}
WEATHER_ARGUMENTS = {"city": "xxxx", "unit": "C", "days": 2}


def document(question: str, *items: dict[str, Any], functions: Any = (WEATHER, STOCK)) -> str:
    """A request with functions in a wording that the sandbox does not know."""
    rules = f"Answer in JSON. You may use {{these}}: {json.dumps(list(functions))}. Nothing else [1]."
    return json.dumps(
        {"instructions": [rules, "Be kind"], "input": [{"role": "user", "content": question}, *items]}
    )


async def said(web: WebVisitor, question: str, *items: dict[str, Any], **more: Any) -> str:
    return (await web.ask(document(question, *items, **more), model_preference="gpt55")).text


async def test_it_calls_the_first_function_with_arguments_that_fit(web: WebVisitor) -> None:
    found = json.loads(await said(web, "Weather?"))
    assert found == {
        "type": "function_calls",
        "calls": [{"name": "get_weather", "arguments": WEATHER_ARGUMENTS}],
    }


async def test_it_says_a_sentence_about_the_result(web: WebVisitor) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    found = json.loads(await said(web, "Weather?", call, result))
    assert found["type"] == "message"
    assert "rain" in found["content"]


async def test_it_says_a_sentence_when_nothing_is_offered(web: WebVisitor) -> None:
    assert json.loads(await said(web, "Weather?", functions=()))["type"] == "message"


CHECKS: dict[str, Callable[[str], object]] = {
    "call": lambda text: len(json.loads(text)["calls"]) == 1,
    "two": lambda text: [call["name"] for call in json.loads(text)["calls"]] == ["get_weather", "stock"],
    "message": lambda text: json.loads(text)["content"],
    "prose": lambda text: not text.startswith(("{", "`")),
    "fenced": lambda text: text.startswith("```json\n{") and text.endswith("}\n```"),
    "wrong": lambda text: json.loads(text)["calls"][0]["arguments"] == {"no_such_argument": [1]},
    "unknown": lambda text: json.loads(text)["calls"][0]["name"] == "no_such_function",
    "duplicate": lambda text: text.count('"calls":') == 2 and json.loads(text)["calls"],
    "extra": lambda text: set(json.loads(text)) == {"type", "calls", "thought"},
    "empty": lambda text: json.loads(text)["calls"] == [],
    "nan": lambda text: "NaN" in text,
}


@pytest.mark.parametrize("manner", BRIDGES)
async def test_it_answers_in_every_manner(web: WebVisitor, manner: str) -> None:
    text = await said(web, f"Weather? [sandbox:bridge={manner}]")
    assert CHECKS[manner](text), text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "minLength": 6}, "xxxxxx"),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "number", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": 0}, 0),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["xxxx", "xxxx"]),
        ({"anyOf": [{"const": "this"}, {"type": "null"}]}, "this"),
        ({"default": 5}, 5),
        ({"$ref": "#/$defs/place"}, {"name": "xxxx"}),
        ({"properties": {"a": {"type": "boolean"}}}, {"a": True}),
    ],
)
def test_it_makes_values_that_fit_their_schema(schema: dict[str, Any], value: Any) -> None:
    place = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert example(schema, {"$defs": {"place": place}}) == value


def test_it_stops_at_a_schema_that_holds_itself() -> None:
    root = {"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}
    assert isinstance(example({"$ref": "#/$defs/node"}, root), dict)


def test_it_finds_functions_wherever_they_are_listed() -> None:
    for text in (
        json.dumps([WEATHER]),
        f"a {json.dumps({'tools': [WEATHER]})} b",
        f"{{x}} {json.dumps(WEATHER)}",
    ):
        assert [function["name"] for function in offered({"instructions": [text]})] == ["get_weather"]
    assert offered({"instructions": [None, "nothing {here} [at] all"]}) == []
