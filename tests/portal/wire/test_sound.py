from __future__ import annotations

from typing import Any

import pytest

from portal.wire.sound import flaw_of


@pytest.mark.parametrize(
    "value", [None, True, 1.5, "🌊 tide\n", 2**64 - 1, -(2**63), {"a": [{"b": "c"}, []]}, {}]
)
def test_it_finds_nothing_wrong_with_ordinary_json(value: Any) -> None:
    assert flaw_of(value) == ""


@pytest.mark.parametrize("value", ["\0", "a\ud800", {"\udfff": 1}, [[{"a": ["\0"]}]]])
def test_it_finds_text_that_nothing_carries(value: Any) -> None:
    assert flaw_of(value) == "holds a NUL character or a lone surrogate"


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [{"maximum": 10**400}]])
def test_it_finds_numbers_that_are_too_large(value: Any) -> None:
    assert flaw_of(value) == "holds a number that is too large"


def test_it_is_not_afraid_of_depth() -> None:
    value: Any = "\0"
    for _ in range(100_000):
        value = [value]
    assert flaw_of(value)
