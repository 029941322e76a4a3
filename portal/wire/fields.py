"""Reads the members of a JSON object: each error is one clear 400 that names its field.

A missing member and a null one are the same. Text that a database or a UTF-8 stream cannot
carry (NUL, lone surrogates) is refused here, so that nothing behind a door meets it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from portal.wire.errors import BadRequest

Word = TypeVar("Word", bound=str)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object. `where` is its own place in the body, as in `tools[0].filters.`."""

    values: Mapping[str, object]
    where: str = ""

    def param(self, name: str) -> str:
        return f"{self.where}{name}"

    def given(self, name: str) -> bool:
        return self.values.get(name) is not None

    def refuse(self, name: str, message: str) -> BadRequest:
        """The error to raise: `message` follows the field's own name."""
        return BadRequest(f"{self.param(name)} {message}", param=self.param(name))

    def text(self, name: str, *, longest: int) -> str | None:
        """At most `longest` characters (code points)."""
        value = self.values.get(name)
        return None if value is None else self.check_text(name, value, longest)

    def word(self, name: str, *, longest: int) -> str | None:
        """Trimmed, and not empty."""
        value = self.text(name, longest=longest)
        if value is not None and not value.strip():
            raise self.refuse(name, "must not be empty")
        return value.strip() if value is not None else None

    def choice(self, name: str, choices: tuple[Word, ...]) -> Word | None:
        value = self.values.get(name)
        for choice in choices:
            if value == choice:
                return choice
        if value is None:
            return None
        raise self.refuse(name, f"must be one of: {', '.join(choices)}")

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.refuse(name, "must be true or false")

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number within both bounds; JSON writes it with a fraction of zero, too."""
        value = self.values.get(name)
        if value is None:
            return None
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return number
        raise self.refuse(name, f"must be a whole number from {least:,} to {most:,}")

    def items(self, name: str, *, most: int) -> list[object]:
        """A list of at most `most` members; a missing one is empty."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(name, "must be a list")
        if len(value) > most:
            raise self.refuse(name, f"must have at most {most} entries")
        return value

    def inner(self, name: str) -> Fields:
        """The object behind `name`; a missing one is empty."""
        value = self.values.get(name)
        return self.member(name, {} if value is None else value)

    def member(self, name: str, value: object) -> Fields:
        """`value`, found at `name` (which may be a place in a list), as an object."""
        if not isinstance(value, dict):
            raise self.refuse(name, "must be an object")
        return Fields(value, f"{self.param(name)}.")

    def check_text(self, name: str, value: object, longest: int) -> str:
        if not isinstance(value, str):
            raise self.refuse(name, "must be a string")
        if "\0" in value:
            raise self.refuse(name, "must not contain NUL characters")
        if _SURROGATE.search(value):
            raise self.refuse(name, "is not valid Unicode: it contains a lone surrogate")
        if len(value) > longest:
            raise self.refuse(name, f"must be at most {longest:,} characters")
        return value


def fields_of(body: object) -> Fields:
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    return Fields(body)


def is_plain_name(text: str) -> bool:
    """Whether a caller's own word may be repeated in an error: short, ASCII, no punctuation."""
    return _PLAIN_NAME.fullmatch(text) is not None
