"""Wakes whoever waits for a run to go on: one look at the database for all of them.

Streams are held by the thousand and runs take minutes, so no stream asks for itself. One task a
process looks, as long as somebody waits, at the event numbers of all runs that are waited for. A
database that is away for a while, or too busy, ends nobody's stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from django.db import Error

from portal.wire.errors import Unavailable
from research.models.runs import Run

log = logging.getLogger(__name__)
Result = TypeVar("Result")
PAUSE = 0.5
"""Seconds between two looks."""
AT_ONCE = 500
"""Runs that one statement asks for."""
PATIENCE = 60
"""Pauses that a read may wait for a database that does not answer."""


class Visit(Protocol):
    """Runs database work in a thread that may do it."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]: ...


class RunNews:
    """For the event loop of one process. `visit` does its reading."""

    def __init__(self, visit: Visit, *, pause: float = PAUSE) -> None:
        self._visit = visit
        self._pause = pause
        self._waiting: dict[UUID, dict[asyncio.Future[None], int]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def after(self, run_id: UUID, seq: int) -> None:
        """Returns once the run has an event after number `seq`, or is no more."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, {})[woken] = seq
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await woken
        finally:
            self._forget(run_id, woken)

    async def read(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, in a database thread. Raises what still stands after `PATIENCE`."""
        for _ in range(PATIENCE):
            try:
                return await self._visit(work)
            except (Error, Unavailable):
                await asyncio.sleep(self._pause)
        return await self._visit(work)

    def _forget(self, run_id: UUID, woken: asyncio.Future[None]) -> None:
        waiting = self._waiting[run_id]
        del waiting[woken]
        if not waiting:
            del self._waiting[run_id]

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._pause)
            runs = list(self._waiting)
            for at in range(0, len(runs), AT_ONCE):
                await self._look_at(runs[at : at + AT_ONCE])

    async def _look_at(self, runs: list[UUID]) -> None:
        try:
            last = await self._visit(partial(last_events, runs))
        except (Error, Unavailable) as error:  # whoever waits goes on waiting
            log.warning("could not look for news of runs: %s", str(error) or type(error).__name__)
            return
        for run_id in runs:
            for woken, seq in list(self._waiting.get(run_id, {}).items()):
                if last.get(run_id, seq + 1) > seq and not woken.done():
                    woken.set_result(None)


def last_events(runs: Collection[UUID]) -> dict[UUID, int]:
    """The number of the last event of each run that there is."""
    return dict(Run.objects.filter(pk__in=runs).values_list("pk", "event_seq"))
