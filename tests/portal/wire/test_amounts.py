from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.amounts import json_number, plain


@pytest.mark.parametrize(
    ("amount", "text"),
    [("2", "2"), ("2.0000", "2"), ("0.1", "0.1"), ("-0.5", "-0.5"), ("1E+3", "1000"), ("0", "0")],
)
def test_it_writes_whole_credits_as_whole_numbers(amount: str, text: str) -> None:
    assert json.dumps(json_number(Decimal(amount))) == text


@given(st.integers(-(10**10), 10**10))
def test_it_loses_no_digit_of_a_credit(units: int) -> None:
    amount = Decimal(units) / 10_000
    assert Decimal(json.dumps(json_number(amount))) == amount


@pytest.mark.parametrize(
    ("cost", "text"), [("1.2E-3", "0.0012"), ("0.0000000001", "0.0000000001"), ("12", "12")]
)
def test_it_writes_money_without_an_exponent(cost: str, text: str) -> None:
    assert plain(Decimal(cost)) == text
