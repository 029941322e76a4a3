"""What the portal's commands share: bad input is one clear line and exit code 1."""

from __future__ import annotations

import sys
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from portal.models.fields import MOST as MOST_CREDITS
from portal.models.fields import is_amount
from portal.running import preparation
from portal.services.errors import Invalid
from portal.wire.redact import redact

MOST = 2_147_483_647


class SpokenCommand(BaseCommand):
    """What it refuses is said in a line that begins as all of Sonde's do, on the command line."""

    requires_system_checks: list[str] = []
    is_typed = False

    def run_from_argv(self, argv: list[str]) -> None:
        self.is_typed = True
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return self._execute(*args, **options)
        except CommandError as error:
            if not self.is_typed or options["traceback"]:
                raise
            self.stderr.write(f"sonde: {error}")
            sys.exit(error.returncode)

    def _execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DatabaseError as error:
            reason = _not_ready(error)
            if reason is None:
                raise
            raise CommandError(reason) from None


class PlainCommand(SpokenCommand):
    """`act` does the work; what it raises as Invalid is said in one line."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.act(**options)
        except Invalid as error:
            raise CommandError(str(error)) from None

    def act(self, **options: Any) -> None:
        raise NotImplementedError

    def say(self, text: str) -> None:
        self.stdout.write(text)


def _not_ready(error: DatabaseError) -> str | None:
    """Why no command can work on this database now; None when the error has another cause."""
    try:
        preparation.check()
    except preparation.NotReady as pending:
        return str(pending)
    except DatabaseError:
        return f"the database does not answer: {redact(' '.join(str(error).split()))}"
    return None


def credits(text: str) -> Decimal:
    """An amount of credits with at most four decimal places. Raises Invalid."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not is_amount(amount) or amount < 0:
        raise Invalid(
            f"{text!r} is not an amount of credits: give a number from 0 to {MOST_CREDITS:,},"
            " with at most four decimal places"
        )
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
