"""Exact decimals on the wire."""

from __future__ import annotations

from decimal import Decimal


def json_number(amount: Decimal) -> int | float:
    """Credits as a JSON number: 2, not 2.0000; 0.1 stays 0.1 (credits have four places at most)."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def plain(amount: Decimal) -> str:
    """Money as a string with every digit and no exponent: 0.0012, not 1.2E-3."""
    return format(amount, "f")
