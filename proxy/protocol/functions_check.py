"""Checks arguments by a JSON Schema within a budget: it ends soon, whatever both of them hold.

`jsonschema` checks, since its keywords can be wrapped and counted; `jsonschema_rs` runs the patterns,
since its engine does not blow up where Python's does (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

BUDGET = 30_000
"""Steps that one check may take: less than a second."""
SMALL, LARGE = 1 << 15, 1 << 18
"""Bytes of a pattern's engine, of which there are four: a large one takes a mebibyte and up to 10 ms."""
_BACKTRACKS = 1_000
NOTHING_ELSE: Registry[Any] = Registry()
"""No other documents: the library's own default would fetch them from wherever a reference says."""

Pattern = Callable[[str], bool]
Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


def fault_of(schema: Mapping[str, Any], patterns: Mapping[str, Pattern], arguments: object) -> str | None:
    """The keyword that `arguments` break first, `budget` when they take too long; None when they fit.

    `patterns` are all that stand in `schema`, compiled.
    """
    token = _meter.set(_Meter(patterns))
    try:
        checker = _Checker(cast(Any, schema), registry=NOTHING_ELSE)
        error = next(checker.iter_errors(arguments), None)
    except (_OverBudget, RecursionError, OverflowError):
        return "budget"
    finally:
        _meter.reset(token)
    return None if error is None else str(error.validator or "false")


def compile_pattern(pattern: str, size: int = LARGE) -> Pattern:
    """Raises ValueError for what is no pattern, or takes more than `size`."""
    for compiled in (_linear, _backtracking):
        try:
            return compiled(pattern, size)
        except (jsonschema_rs.ValidationError, ValueError):
            continue
    raise ValueError("no pattern")


def _linear(pattern: str, size: int) -> Pattern:
    options = jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)
    matches = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options).is_valid

    def found(text: str) -> bool:
        _spend(len(text) // 64)
        return matches(text)

    return found


def _backtracking(pattern: str, size: int) -> Pattern:
    """For what the linear engine does not know: looking around, and references back."""
    options = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKS, size_limit=size, dfa_size_limit=size
    )
    matches = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options).is_valid

    def found(text: str) -> bool:
        _spend(len(text))
        return matches(text)

    return found


class _OverBudget(Exception):
    pass


@dataclass(slots=True)
class _Meter:
    patterns: Mapping[str, Pattern]
    left: int = BUDGET


_meter: ContextVar[_Meter] = ContextVar("meter")


def _spend(steps: int) -> None:
    meter = _meter.get()
    meter.left -= steps + 1
    if meter.left < 0:
        raise _OverBudget


def _size(value: object) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _metered(check: Keyword) -> Keyword:
    def metered(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend((_size(value) + _size(instance)) // 16)
        return check(validator, value, instance, schema)

    return metered


def _squared(check: Keyword) -> Keyword:
    """For keywords that compare every member with every other."""

    def metered(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend(_size(instance) ** 2 // 64)
        return check(validator, value, instance, schema)

    return metered


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and len(set(map(_frozen, instance))) < len(instance):
        yield ValidationError("uniqueItems")


def _frozen(value: object) -> object:
    """Equal for what JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    _spend(0)
    if isinstance(value, dict):
        return ("object", frozenset((name, _frozen(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(_frozen, value)))
    return ("flag", value) if isinstance(value, bool) else value


def _matches(pattern: str, text: str) -> bool:
    return _meter.get().patterns[pattern](text)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("pattern")


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if _matches(pattern, name):
                yield from validator.descend(value, inner)


def _additional(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", ())
    for name, value in instance.items():
        if name not in named and not any(_matches(pattern, name) for pattern in patterns):
            yield from [ValidationError(name)] if inner is False else validator.descend(value, inner)


_Checker = extend(
    Draft202012Validator,
    {
        **{name: _metered(check) for name, check in Draft202012Validator.VALIDATORS.items()},
        **{
            name: _squared(Draft202012Validator.VALIDATORS[name])
            for name in ("unevaluatedItems", "unevaluatedProperties")
        },
        "uniqueItems": _metered(_unique),
        "pattern": _metered(_pattern),
        "patternProperties": _metered(_pattern_properties),
        "additionalProperties": _metered(_additional),
    },
)
