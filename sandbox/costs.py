"""Splitting a price into parts that add up to its last digit."""

from __future__ import annotations

from decimal import Decimal, localcontext


def split(total: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """A quarter, a quarter and a half of an amount of US dollars; their sum is exactly the amount."""
    with localcontext() as context:
        context.prec = 80
        quarter = total / 4
        return quarter, quarter, total - quarter - quarter
