"""What the portal's commands share: bad input is one clear line and exit code 1."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.models.fields import is_amount
from portal.services.errors import Invalid

MOST = 2_147_483_647


class PlainCommand(BaseCommand):
    """`act` does the work; what it raises as Invalid is said in one line."""

    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.act(**options)
        except Invalid as error:
            raise CommandError(str(error)) from None

    def act(self, **options: Any) -> None:
        raise NotImplementedError

    def say(self, text: str) -> None:
        self.stdout.write(text)


def credits(text: str) -> Decimal:
    """An amount of credits with at most four decimal places. Raises Invalid."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not is_amount(amount) or amount < 0:
        raise Invalid(f"{text!r} is not an amount of credits: give a number with at most four decimal places")
    return amount


def count(text: str | None, what: str) -> int | None:
    """A whole number of 1 or more; None stays None. Raises Invalid."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST:
        raise Invalid(f"{what} must be a whole number of 1 or more, not {text!r}")
    return int(text)


def moment(text: str | None) -> datetime | None:
    """ISO 8601; whether it has a time zone is for the service to judge. Raises Invalid."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text!r} is not a time: write it as 2027-01-31T12:00:00Z") from None


def words(text: str | None) -> list[str]:
    """A comma-separated list, trimmed, without empty members."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]
