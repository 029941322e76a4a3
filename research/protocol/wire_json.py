"""Reads upstream JSON without believing it: every reader takes anything and answers with its type.

Numbers with a point stay exact decimals. Text is made storable: no NUL, no lone surrogates.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

LARGEST_COUNT = 10**15
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def read_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in `body`; None when it is anything else, cut short or not JSON at all."""
    try:
        value = json.loads(body, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def members(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list, in order; what else stands in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    """The texts in a list, in order, empty ones left out."""
    return [text for item in value if (text := string(item))] if isinstance(value, list) else []


def string(value: object, longest: int | None = None) -> str:
    """`value` when it is text, cut to `longest` characters; else ""."""
    return _UNFIT.sub("\ufffd", value[:longest]) if isinstance(value, str) else ""


def line(value: object, longest: int) -> str:
    """Text on one line, every run of white space a single space."""
    return " ".join(string(value, longest * 4).split())[:longest]


def count_of(value: object) -> int:
    """A whole number from 0 to `LARGEST_COUNT`; 0 for anything else."""
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value.adjusted() < 16 and value == value.to_integral_value()
        value = int(value) if is_whole else 0
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else 0


def dollars(value: object) -> Decimal | None:
    """An amount of money, exact to the last digit sent; None for anything that cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = Decimal(value)
    if not amount.is_finite() or amount < 0 or amount.adjusted() > 7:
        return None
    return amount


def content_text(value: object) -> str:
    """A message's content: text, or a list of parts whose texts are joined; "" for anything else."""
    if isinstance(value, list):
        return "".join(string(part) if isinstance(part, str) else _part_text(part) for part in value)
    return string(value)


def _part_text(part: object) -> str:
    found = members(part)
    return string(found.get("text")) if found.get("type") in (None, "text", "output_text") else ""
