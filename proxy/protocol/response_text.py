"""`text` of a Responses request: plain text, or JSON by instruction (proxy-contract §8.3).

The upstream has no mode for JSON: the format becomes a line of the prompt, and nothing checks what
comes back. So a caller who insists (`strict`) is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.response_object import Json

JSON_ONLY = "Answer with one JSON object and nothing else: no words around it, no code fence."
PARAM = "text.format"
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class TextFormat:
    """`instructions` are for the prompt, empty for plain text."""

    echo: Json
    instructions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def read_text(body: Fields) -> TextFormat:
    """Raises BadRequest with param text or text.format."""
    text = body.inner("text")
    given = text.values.get("format")
    form = {"type": "text"} if given is None else given
    if not isinstance(form, dict) or form.get("type") not in ("text", "json_object", "json_schema"):
        raise _bad("must be an object of type text, json_object or json_schema")
    if form.get("strict"):
        raise _bad("cannot be strict: nothing makes the answer follow a schema")
    verbosity = text.choice("verbosity", ("low", "medium", "high"))
    return TextFormat(
        {"format": _echoed(form), **({"verbosity": verbosity} if verbosity else {})},
        _instructions(form),
        ("text.verbosity",) if verbosity in ("low", "high") else (),
    )


def _instructions(form: Json) -> tuple[str, ...]:
    if form["type"] == "text":
        return ()
    if form["type"] == "json_object":
        return (JSON_ONLY,)
    schema = json.dumps(_schema(form), ensure_ascii=False, separators=(",", ":"))
    return (f"{JSON_ONLY} It follows this JSON Schema: {schema}",)


def _schema(form: Json) -> Json:
    schema = form.get("schema")
    if not isinstance(schema, dict):
        raise _bad("needs its schema, an object")
    return schema


def _echoed(form: Json) -> Json:
    if form["type"] != "json_schema":
        return {"type": form["type"]}
    name = form.get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        raise _bad(f"needs a name of 1 to {LONGEST_NAME} characters")
    return {
        "type": "json_schema",
        "name": name,
        "schema": _schema(form),
        "description": form.get("description") if isinstance(form.get("description"), str) else None,
        "strict": False,
    }


def _bad(what: str) -> BadRequest:
    return BadRequest(f"{PARAM} {what}.", param=PARAM)
