"""Open turns are leased: a process that dies frees its slots and reservations by renewing nothing.

All answers of an event loop are renewed together, in one statement, for as long as there are any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import Error, connection, transaction
from django.utils import timezone

from proxy.models.chats import ChatTurn
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
RENEW_SECONDS = 10.0
A_STATEMENT = 500


def lease_end() -> datetime:
    return timezone.now() + LEASE


@dataclass(slots=True)
class _Held:
    """The turns of one event loop, and the task that renews them."""

    turns: set[UUID] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


_held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()


@contextmanager
def held(turn_id: UUID) -> Iterator[None]:
    """Keep this turn's lease alive within the block, which runs on an event loop."""
    mine = _held.setdefault(asyncio.get_running_loop(), _Held())
    mine.turns.add(turn_id)
    if mine.task is None or mine.task.done():
        mine.task = asyncio.create_task(_keep(mine))
    try:
        yield
    finally:
        mine.turns.discard(turn_id)


async def _keep(mine: _Held) -> None:
    while mine.turns:
        await asyncio.sleep(RENEW_SECONDS)
        turns = list(mine.turns)
        for start in range(0, len(turns), A_STATEMENT):
            try:
                await in_thread(partial(renew, turns[start : start + A_STATEMENT]))
            except Error as error:
                log.warning("chat leases were not renewed: %s", type(error).__name__)


@transaction.atomic
def renew(turns: list[UUID]) -> None:
    """Only what is still open: a turn that was given up stays so.

    What somebody is just ending is passed over: a round ends many turns in an order of its own, and the
    two would wait for each other.
    """
    mine = ChatTurn.objects.filter(pk__in=turns, state=ChatTurn.State.OPEN)
    if connection.features.has_select_for_update_skip_locked:
        turns = list(mine.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    ChatTurn.objects.filter(pk__in=turns, state=ChatTurn.State.OPEN).update(lease_until=lease_end())


def end_all_leases() -> None:
    """For a process that knows it is the only one: whoever held a lease is dead."""
    ChatTurn.objects.filter(state=ChatTurn.State.OPEN).update(lease_until=timezone.now())
