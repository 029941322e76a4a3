"""Requests per minute and chats per day, of a user and of a key, exact over all processes (SPEC 2.4, 10.6).

A limit counts in fixed minutes. The counts live in one Redis script where there is a Redis, else,
and while it is away, in the database; a request counts in all of its windows or, refused, in none.
Nothing is asked of either for a caller without limits. Chats are always counted in the database, in the
transaction that starts the chat: one that does not start counts nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from portal.models.system import RateWindow
from portal.services.principal import Principal
from portal.wire.errors import RateLimited, rate_limited

log = logging.getLogger(__name__)

DAY = timedelta(days=1)
REDIS_REST = 5.0
"""Seconds before a Redis that gave no answer is asked again."""
UPSERT = """
INSERT INTO portal_ratewindow AS kept (subject, starts_at, count) VALUES (%s, %s, 1)
ON CONFLICT (subject, starts_at) DO UPDATE SET count = kept.count + 1 WHERE kept.count < %s
RETURNING count
"""

# When Redis did not answer: until then the database counts. One process's own observation.
_redis_away_until = 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """What is counted: `user:7` may make `limit` requests a minute, `chat:user:7` so many chats a day."""

    subject: str
    limit: int


@dataclass(frozen=True, slots=True)
class LimitState:
    """The tightest of the caller's limits after this request; None while there is none."""

    limit: int | None = None
    remaining: int = 0
    reset: int = 0
    """Seconds until the window ends."""

    @property
    def headers(self) -> dict[str, str]:
        if self.limit is None:
            return {}
        return {
            "x-ratelimit-limit-requests": str(self.limit),
            "x-ratelimit-remaining-requests": str(self.remaining),
            "x-ratelimit-reset-requests": f"{self.reset}s",
        }


class _Full(Exception):
    """A window is full; `place` is its place among the windows."""

    def __init__(self, place: int) -> None:
        self.place = place


def admit_request(principal: Principal) -> LimitState:
    """Count this request. Raises RateLimited with Retry-After, and then counts nothing."""
    windows = _windows(principal)
    if not windows:
        return LimitState()
    now = timezone.now()
    start = now.replace(second=0, microsecond=0)
    reset = max(1, 60 - now.second)
    try:
        counts = _count(windows, start)
    except _Full as full:
        problem = rate_limited(reset)
        state = LimitState(windows[full.place].limit, 0, reset)
        problem.headers = {**problem.headers, **state.headers}
        raise problem from None
    left = [(window.limit - count, window.limit) for window, count in zip(windows, counts, strict=True)]
    remaining, limit = min(left)
    return LimitState(limit, remaining, reset)


def count_chat(who: Principal) -> None:
    """Count a chat in today's windows (UTC), in the caller's transaction. Raises RateLimited."""
    windows = [Window(subject, limit) for subject, limit in _daily(who) if limit is not None]
    if not windows:
        return
    now = timezone.now()
    today = _day(now)
    try:
        _count_in_database(windows, today)
    except _Full as full:
        seconds = int((today + DAY - now).total_seconds()) + 1
        raise RateLimited(
            f"The limit of {windows[full.place].limit:,} chats a day is reached.",
            code="rate_limit_exceeded",
            headers={"Retry-After": str(seconds), "x-should-retry": "false"},
        ) from None


def uncount_chat(user_id: int, key_id: int | None, started_at: datetime) -> None:
    """Take back a chat that gave nothing, from the windows it was counted in, if it was."""
    subjects = [_of_user(user_id), *([] if key_id is None else [_of_key(key_id)])]
    rows = RateWindow.objects.filter(subject__in=subjects, starts_at=_day(started_at), count__gt=0)
    rows.update(count=F("count") - 1)


def _daily(who: Principal) -> list[tuple[str, int | None]]:
    of_key = [] if who.key_id is None else [(_of_key(who.key_id), who.chat.key_daily)]
    return [*of_key, (_of_user(who.user_id), who.chat.user_daily)]


def _of_key(key_id: int) -> str:
    return f"chat:key:{key_id}"


def _of_user(user_id: int) -> str:
    return f"chat:user:{user_id}"


def _day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _windows(who: Principal) -> list[Window]:
    """Always in the same order, so that two requests never wait for each other in a circle."""
    windows = []
    if who.key_limit is not None:
        windows.append(Window(f"key:{who.key_id}", who.key_limit))
    if who.user_limit is not None:
        windows.append(Window(f"user:{who.user_id}", who.user_limit))
    return windows


def _count(windows: Sequence[Window], start: datetime) -> list[int]:
    global _redis_away_until
    if settings.REDIS_URL and time.monotonic() >= _redis_away_until:
        try:
            return _count_in_redis(windows, start)
        except ConnectionError as error:
            log.warning("limits are counted in the database: %s", error)
            _redis_away_until = time.monotonic() + REDIS_REST
    return _count_in_database(windows, start)


def _count_in_redis(windows: Sequence[Window], start: datetime) -> list[int]:
    # Loaded where there is a Redis: its client takes a twentieth of a start in embedded mode.
    from portal.services import redis_windows  # noqa: PLC0415

    keys = [f"sonde.rate.{window.subject}.{start:%Y%m%d%H%M}" for window in windows]
    counts = redis_windows.count(settings.REDIS_URL, keys, [window.limit for window in windows])
    if counts[0] < 0:
        raise _Full(-counts[0] - 1)
    return counts


@transaction.atomic
def _count_in_database(windows: Sequence[Window], start: datetime) -> list[int]:
    """A full window takes back, with the transaction, what was counted in the ones before it."""
    return [_count_row(place, window, start) for place, window in enumerate(windows)]


def _count_row(place: int, window: Window, start: datetime) -> int:
    if window.limit <= 0:
        raise _Full(place)
    with connection.cursor() as cursor:
        moment = connection.ops.adapt_datetimefield_value(start)
        cursor.execute(UPSERT, [window.subject, moment, window.limit])
        row = cursor.fetchone()
    if row is None:
        raise _Full(place)
    if row[0] == 1:
        # The first of its window clears away those before: one row stays for each subject.
        RateWindow.objects.filter(subject=window.subject, starts_at__lt=start).delete()
    return int(row[0])
