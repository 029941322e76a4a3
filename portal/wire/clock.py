"""Time as the wire shows it. The current time is always an argument of pure code."""

from __future__ import annotations

from datetime import UTC, datetime


def unix(moment: datetime | None) -> int | None:
    """Whole seconds since 1970, as every OpenAI-shaped body counts."""
    return None if moment is None else int(moment.timestamp())


def month_start(moment: datetime) -> datetime:
    """The first instant of the moment's calendar month, UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
