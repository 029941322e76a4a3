"""Wakes whoever waits for rows to be written: one look at the database for all of them.

Streams are held by the thousand, so no stream asks for itself. One task a process looks, as long as
somebody waits, how far everything that is waited for is written. A database that is away for a while,
or too busy, ends nobody's stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from django.db import Error

from portal.wire.errors import Unavailable

log = logging.getLogger(__name__)
Result = TypeVar("Result")
PAUSE = 0.5
"""Seconds between two looks."""
AT_ONCE = 500
"""Subjects that one statement asks for."""
PATIENCE = 60
"""Pauses that a read may wait for a database that does not answer."""

Written = Callable[[Collection[UUID]], Mapping[UUID, int]]
"""How far each of these subjects is written, as far as there are any. Reads the database."""


class Visit(Protocol):
    """Runs database work in a thread that may do it."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]: ...


class News:
    """For one event loop. `visit` does its reading, `written` is what it looks at."""

    def __init__(self, written: Written, visit: Visit, *, pause: float = PAUSE) -> None:
        self._written = written
        self._visit = visit
        self._pause = pause
        self._waiting: dict[UUID, dict[asyncio.Future[None], int]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def after(self, subject: UUID, place: int) -> None:
        """Returns once the subject is written beyond `place`, or is no more."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, {})[woken] = place
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await woken
        finally:
            self._forget(subject, woken)

    async def read(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, in a database thread. Raises what still stands after `PATIENCE`."""
        for _ in range(PATIENCE):
            try:
                return await self._visit(work)
            except (Error, Unavailable):
                await asyncio.sleep(self._pause)
        return await self._visit(work)

    def _forget(self, subject: UUID, woken: asyncio.Future[None]) -> None:
        waiting = self._waiting[subject]
        del waiting[woken]
        if not waiting:
            del self._waiting[subject]

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._pause)
            subjects = list(self._waiting)
            for at in range(0, len(subjects), AT_ONCE):
                await self._look_at(subjects[at : at + AT_ONCE])

    async def _look_at(self, subjects: list[UUID]) -> None:
        try:
            written = await self._visit(partial(self._written, subjects))
        except (Error, Unavailable) as error:  # whoever waits goes on waiting
            log.warning("could not look for news: %s", str(error) or type(error).__name__)
            return
        for subject in subjects:
            for woken, place in list(self._waiting.get(subject, {}).items()):
                if written.get(subject, place + 1) > place and not woken.done():
                    woken.set_result(None)
