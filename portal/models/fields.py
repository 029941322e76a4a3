"""Credits in the database: exact on both engines."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models

UNITS = 10_000
"""Units per credit: amounts are exact to four decimal places."""
MOST = Decimal(1_000_000_000)
"""Nobody has or gives more; sums of thousands of them still fit the column."""


def is_amount(amount: Decimal) -> bool:
    """Whether it is an amount of credits: finite, at most four decimal places, in bounds."""
    return amount.is_finite() and abs(amount) <= MOST and amount == round(amount, 4)


@lru_cache(1024)
def units(amount: Decimal) -> int:
    """An amount of credits as the column holds it. Raises ValidationError."""
    if not is_amount(amount):
        raise ValidationError("Credits have at most four decimal places.", code="invalid")
    return int(amount * UNITS)


class CreditField(models.BigIntegerField):  # type: ignore[type-arg]  # generic only in the stubs
    """A Decimal amount of credits, stored as whole ten-thousandths.

    SQLite has no decimal type: it would add such columns up as binary floats. Whole numbers
    keep sums, comparisons and CHECK constraints exact on SQLite and PostgreSQL alike.
    """

    # What django-stubs' plugin reads for the types of assignment and access.
    _pyi_private_set_type: Decimal | int  # type: ignore[assignment]  # narrower than its parent
    _pyi_private_get_type: Decimal  # type: ignore[assignment]  # wider than its parent

    def from_db_value(self, value: int | None, expression: object, connection: object) -> Decimal | None:
        return None if value is None else Decimal(value) / UNITS

    def to_python(self, value: Any) -> Decimal | None:
        amount = _read(value)
        if amount is not None:
            units(amount)  # checks it
        return amount

    def get_prep_value(self, value: Any) -> int | None:
        amount = _read(value)
        return None if amount is None else units(amount)

    def formfield(self, **kwargs: Any) -> Any:
        limits = {"decimal_places": 4, "min_value": 0, "max_value": MOST}
        return models.Field.formfield(self, **{"form_class": forms.DecimalField, **limits, **kwargs})


def _read(value: Any) -> Decimal | None:
    if value is None or value == "":
        return None
    if isinstance(value, Decimal):
        return value
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise ValidationError("Enter a number of credits.", code="invalid") from None
