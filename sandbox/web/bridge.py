"""A model that is offered functions in its prompt, and what it makes of them (perplexity-web §17.5).

It finds the functions wherever the prompt lists them as JSON, and fills in arguments that fit their schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_DEEP = 8
_DECODER = json.JSONDecoder()


def _documents(text: str) -> Iterator[Any]:
    """Every JSON object or list that begins somewhere in the text, outermost first."""
    place = 0
    while (
        place := min((at for at in (text.find("{", place), text.find("[", place)) if at >= 0), default=-1)
    ) >= 0:
        try:
            found, place = _DECODER.raw_decode(text, place)
        except ValueError:
            place += 1
            continue
        yield found


def _functions(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, list):
        for item in found:
            yield from _functions(item)
    elif isinstance(found, dict):
        if isinstance(found.get("name"), str) and {"parameters", "description"} & set(found):
            yield found
            return
        for item in found.values():
            yield from _functions(item)


def offered(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The functions that the instructions of a bridge request list, each once."""
    found: dict[str, dict[str, Any]] = {}
    for text in document.get("instructions", []):
        for item in _documents(text if isinstance(text, str) else ""):
            for function in _functions(item):
                found.setdefault(function["name"], function)
    return list(found.values())


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(_DEEP):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            break
        schema = root
        for part in reference.removeprefix("#").strip("/").split("/"):
            schema = schema.get(part.replace("~1", "/").replace("~0", "~"), {}) if part else schema
    return schema if isinstance(schema, dict) else {}


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return str(next((item for item in kind if item != "null"), "null") if isinstance(kind, list) else kind)


def _number(schema: dict[str, Any]) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return min(low, schema.get("maximum", low))


def _object(schema: dict[str, Any], root: dict[str, Any], deep: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    needed = schema.get("required", list(properties)[:1])
    return {name: example(properties.get(name, {}), root, deep + 1) for name in needed}


def _given(schema: dict[str, Any]) -> Any:
    """The value that a schema names itself; None without one."""
    values = [schema[word] for word in ("const", "default") if word in schema] + schema.get("enum", [])[:1]
    return values[0] if values else None


def example(schema: Any, root: dict[str, Any], deep: int = 0) -> Any:
    """A value that fits a schema, as far as its plain keywords say."""
    schema = _resolved(schema, root)
    if (given := _given(schema)) is not None:
        return given
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word) and deep < _DEEP:
            return example(schema[word][0], root, deep + 1)
    kind = _kind(schema)
    if kind == "object":
        return _object(schema, root, deep) if deep < _DEEP else {}
    if kind == "array":
        return [example(schema.get("items", {}), root, deep + 1) for _ in range(schema.get("minItems", 0))]
    plain = {"boolean": True, "null": None, "integer": _number(schema), "number": _number(schema)}
    return plain.get(kind, "x" * max(schema.get("minLength", 0), 4))


def _call(function: dict[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters") or {}
    return {"name": function["name"], "arguments": example({"type": "object", **parameters}, parameters)}


def _calls(*calls: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "function_calls", "calls": list(calls), **more}, ensure_ascii=False)


def _message(text: str) -> str:
    return json.dumps({"type": "message", "content": text}, ensure_ascii=False)


def _answered(document: dict[str, Any]) -> list[str]:
    items = document.get("input")
    found = items if isinstance(items, list) else []
    return [
        str(item.get("output"))
        for item in found
        if isinstance(item, dict) and item.get("type") == "function_call_output"
    ]


def reply(document: dict[str, Any], manner: str) -> str:
    """The whole answer of the model. Without a `manner` it calls the first function once, and then, told the
    result, says a sentence about it."""
    functions = offered(document) or [{"name": "no_such_function"}]
    results = _answered(document)
    if not manner:
        manner = "message" if results or functions[0]["name"] == "no_such_function" else "call"
    first = _call(functions[0])
    if manner == "message":
        told = f" The function said: {results[-1]}" if results else ""
        return _message(f"This is a simulated message.{told}")
    return {
        "call": _calls(first),
        "two": _calls(first, _call(functions[-1])),
        "prose": f"I will now call {first['name']} for you.",
        "fenced": f"```json\n{_calls(first)}\n```",
        "wrong": _calls({**first, "arguments": {"no_such_argument": [1]}}),
        "unknown": _calls({"name": "no_such_function", "arguments": {}}),
        "duplicate": _calls(first).replace('"calls":', '"calls": [], "calls":', 1),
        "extra": _calls(first, thought="I need this."),
        "empty": _calls(),
        "nan": _calls(first).replace('"arguments": {', '"arguments": {"x": NaN, ', 1).replace(", }", "}"),
    }[manner]
