from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from research.protocol.wire_json import (
    content_text,
    count_of,
    dollars,
    line,
    objects,
    read_object,
    string,
    strings,
)
from tests.research.protocol.answers import values


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"1",
        b"{",
        b'{"a":1}x',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff",
    ],
)
def test_it_reads_nothing_but_a_whole_object(body: bytes) -> None:
    assert read_object(body) is None


def test_it_keeps_decimals_exact_and_drops_what_is_no_number() -> None:
    assert read_object(b'{"a":0.10,"b":NaN,"c":-Infinity,"d":1e400}') == {
        "a": Decimal("0.10"),
        "b": None,
        "c": None,
        "d": Decimal("1e400"),
    }


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (7, 7),
        (Decimal("7.0"), 7),
        (0, 0),
        (-1, 0),
        (True, 0),
        (Decimal("7.5"), 0),
        (Decimal("1e999999"), 0),
        (10**16, 0),
        (Decimal("NaN"), 0),
        ("7", 0),
        (None, 0),
        ([], 0),
    ],
)
def test_it_counts_whole_numbers_only(value: Any, count: int) -> None:
    assert count_of(value) == count


@pytest.mark.parametrize(
    "value", [Decimal("NaN"), Decimal("Infinity"), Decimal(-1), Decimal("1e8"), -1, True, "1", None, {}]
)
def test_it_takes_no_nonsense_for_money(value: Any) -> None:
    assert dollars(value) is None


def test_it_puts_text_on_one_line() -> None:
    assert line(" a\n\tb \x00", 10) == "a b \ufffd"
    assert line("abcdef", 3) == "abc"
    assert line(5, 3) == ""


@given(values)
def test_it_answers_anything_with_its_own_type(value: Any) -> None:
    string(value).encode()
    content_text(value).encode()
    assert all(isinstance(item, dict) for item in objects(value))
    assert all(strings(value))
    assert count_of(value) >= 0
    assert dollars(value) is None or isinstance(dollars(value), Decimal)
