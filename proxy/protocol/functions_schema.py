"""The JSON Schema of a function's arguments, draft 2020-12: read with care (proxy-contract §9).

A schema comes from a caller and the arguments from a model, so neither may cost more than a bounded
time. Depth, size and patterns of a schema are limited here, and a reference that leads out of it, or
back to where it came from, is refused; `functions_check` counts its steps (docs/decisions/0017).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from portal.wire.fields import is_plain_name
from proxy.protocol.functions_check import NOTHING_ELSE, SMALL, Pattern, compile_pattern, fault_of

DEEPEST = 64
"""Schemas inside schemas, and references that follow one another without going into the arguments."""
MOST_NODES = 10_000
"""Of all functions of a request together, as are the patterns: one takes 0.1 ms, a pattern up to 10."""
MOST_PATTERNS = 200
MOST_LARGE_PATTERNS = 20
"""Of them: such as repeat something a thousand times."""
LONGEST_PATTERN = 1_000

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
)  # fmt: skip
_SAME_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas look at the value itself, and not into it."""
_REFUSED = (
    "$id",
    "$schema",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
)
_UNSOUND = re.compile(r"[\ud800-\udfff]|(?<!\\)(?:\\\\)*\\u0000")

Place = tuple[str, ...]
Schema = Mapping[str, Any]


class SchemaRefused(Exception):
    """The schema cannot be used; the words say why and where, and fit behind its name."""


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """A schema that was found sound."""

    schema: Schema
    patterns: Mapping[str, Pattern]
    """All of its own by their text, and perhaps others."""

    def fault_of(self, arguments: Mapping[str, Any]) -> str | None:
        """The keyword that `arguments` break first, `budget` when they take too long; None when they fit."""
        return fault_of(self.schema, self.patterns, arguments)


@dataclass(slots=True)
class Together:
    """What the functions of one request have in all: many small ones cost no more than a large one."""

    nodes: int = 0
    patterns: dict[str, Pattern] = field(default_factory=dict)
    large_patterns: int = 0


def read_schema(schema: object, *, strict: bool, together: Together | None = None) -> ArgumentSchema:
    """The schema of an object. `strict` asks what OpenAI's strict mode asks. Raises SchemaRefused.

    `together`: what the schemas before it have; this one is added.
    """
    together = together or Together()
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise SchemaRefused('must be a JSON Schema whose type is "object"')
    plain = {name: value for name, value in schema.items() if name != "$schema"}
    _check_soundness(plain)
    nodes = _Walk(room=MOST_NODES - together.nodes)
    nodes.visit(plain, (), 0)
    together.nodes += len(nodes.found)
    _check_by_metaschema(plain)
    _check_references(nodes)
    if strict:
        for place, node in nodes.found.items():
            _check_strictness(node, place)
    _compile_all(nodes, together)
    return ArgumentSchema(plain, together.patterns)


def _check_soundness(schema: Schema) -> None:
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise SchemaRefused("holds a number that JSON does not know, or is nested too deeply") from None
    if _UNSOUND.search(text):
        raise SchemaRefused("holds a NUL character or a lone surrogate")


def _check_by_metaschema(schema: dict[str, Any]) -> None:
    try:
        jsonschema_rs.meta.validate(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        place = tuple(map(str, getattr(error, "instance_path", ())))
        raise SchemaRefused(f"is not a JSON Schema (draft 2020-12){_at(place)}") from None


@dataclass(slots=True)
class _Walk:
    """All schemas inside a schema, by their place in it; `true` and `false` need no look."""

    room: int
    """How many there may be."""
    found: dict[Place, Schema] = field(default_factory=dict)
    anchors: dict[str, Place] = field(default_factory=dict)

    def visit(self, node: object, place: Place, depth: int) -> None:
        if not isinstance(node, dict):
            return
        if depth > DEEPEST:
            raise SchemaRefused(f"is nested more than {DEEPEST} deep")
        if len(self.found) >= self.room:
            raise SchemaRefused(f"has more than {MOST_NODES:,} schemas in it, with those of other functions")
        for word in _REFUSED:
            if word in node:
                raise SchemaRefused(f"must not use {word}{_at(place)}")
        self.found[place] = node
        self._name(node.get("$anchor"), place)
        for inner_place, inner in _inner(node):
            self.visit(inner, place + inner_place, depth + 1)

    def _name(self, anchor: object, place: Place) -> None:
        if isinstance(anchor, str) and self.anchors.setdefault(anchor, place) != place:
            raise SchemaRefused(f"has two schemas with one $anchor{_at(place)}")

    def target(self, reference: object) -> Place | None:
        """Where a `$ref` leads; None when it is not to a schema in here."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            return self.anchors.get(fragment)
        parts = fragment.split("/")[1:]
        place = tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)
        return place if place in self.found else None


def _inner(
    node: Schema, words: tuple[str, ...] = (*_MAPS, *_LISTS, *_SINGLE)
) -> Iterator[tuple[Place, object]]:
    """The schemas directly inside one, behind `words`, with their places; the metaschema minds the shapes."""
    for word in words:
        value = node.get(word)
        if word in _MAPS and isinstance(value, dict):
            yield from (((word, name), inner) for name, inner in value.items())
        elif word in _LISTS and isinstance(value, list):
            yield from (((word, str(number)), inner) for number, inner in enumerate(value))
        elif word in _SINGLE and isinstance(value, dict):
            yield (word,), value


def _check_references(nodes: _Walk) -> None:
    """Each leads to a schema in here, and none to itself before it has gone into the arguments."""
    resolver = NOTHING_ELSE.resolver_with_root(DRAFT202012.create_resource(cast(Any, nodes.found[()])))
    for place, node in nodes.found.items():
        if "$ref" in node and not _leads_as_read(nodes, node["$ref"], resolver):
            raise SchemaRefused(f"has a $ref that leads to no schema in it{_at(place)}")
    heights: dict[Place, int] = {}

    def height(place: Place, above: tuple[Place, ...]) -> int:
        """How many schemas look at one value, one after another, from here."""
        if place in above:
            raise SchemaRefused(f"has a $ref that leads back to itself{_at(place)}")
        if len(above) > DEEPEST:
            raise SchemaRefused(f"has a chain of more than {DEEPEST} references{_at(place)}")
        if place not in heights:
            here = (*above, place)
            heights[place] = 1 + max((height(at, here) for at in _same_place(nodes, place)), default=0)
        if heights[place] + len(above) > DEEPEST:
            raise SchemaRefused(f"has a chain of more than {DEEPEST} references{_at(place)}")
        return heights[place]

    for place in nodes.found:
        height(place, ())


def _leads_as_read(nodes: _Walk, reference: object, resolver: Any) -> bool:
    """Whether it leads to a schema in here, and the library follows it to the same one."""
    target = nodes.target(reference)
    if target is None:
        return False
    try:
        return resolver.lookup(reference).contents is nodes.found[target]
    except Unresolvable:
        return False


def _same_place(nodes: _Walk, place: Place) -> Iterator[Place]:
    node = nodes.found[place]
    for inner_place, _ in _inner(node, _SAME_PLACE):
        if place + inner_place in nodes.found:
            yield place + inner_place
    if (target := nodes.target(node.get("$ref"))) is not None:
        yield target


def _check_strictness(node: Schema, place: Place) -> None:
    kind = node.get("type")
    properties = node.get("properties")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind) and properties is None:
        return
    if node.get("additionalProperties") is not False:
        raise SchemaRefused(f"needs additionalProperties: false, since strict is true{_at(place)}")
    if set(properties or ()) - set(node.get("required") or ()):
        raise SchemaRefused(f"must require all its properties, since strict is true{_at(place)}")


def _at(place: Place) -> str:
    """Where, in words that may be shown: names that are none stay unnamed."""
    shown = [part if is_plain_name(part.lstrip("$")) else "…" for part in place[:12]]
    return f" (at {'.'.join(shown)})" if shown else ""


def _compile_all(nodes: _Walk, together: Together) -> None:
    """Adds all patterns of the schema, ready to run, to `together`."""
    for place, node in nodes.found.items():
        own = [node["pattern"]] if "pattern" in node else []
        for pattern in (*own, *node.get("patternProperties", ())):
            if pattern in together.patterns:
                continue
            if len(together.patterns) >= MOST_PATTERNS:
                raise SchemaRefused(f"has more than {MOST_PATTERNS} patterns, with those of other functions")
            together.patterns[pattern] = _compile(pattern, place, together)
    used = {word for node in nodes.found.values() for word in node}
    if {"patternProperties", "unevaluatedProperties"} <= used:
        raise SchemaRefused("uses patternProperties and unevaluatedProperties at once")


def _compile(pattern: str, place: Place, together: Together) -> Pattern:
    if len(pattern) > LONGEST_PATTERN:
        raise SchemaRefused(f"has a pattern of more than {LONGEST_PATTERN:,} characters{_at(place)}")
    try:
        return compile_pattern(pattern, SMALL)
    except ValueError:
        together.large_patterns += 1
    if together.large_patterns > MOST_LARGE_PATTERNS:
        raise SchemaRefused(
            f"has more than {MOST_LARGE_PATTERNS} large patterns, with those of other functions"
        )
    try:
        return compile_pattern(pattern)
    except ValueError:
        raise SchemaRefused(f"has a pattern that cannot be used{_at(place)}") from None
