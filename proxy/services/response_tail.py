"""Readers of background responses: they follow the rows, on whichever web process they are.

All readers of an event loop share one look: a single statement tells how far each of their responses
is written. Only who is behind reads rows. So a thousand open streams are a few statements a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import Error

from portal.wire.errors import not_found
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.services.response_rows import RECORD_END, records_of
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

TICK = 0.2
"""Seconds between two looks."""
A_STATEMENT = 500
A_READ = 50
"""Writes that are read at once; each holds a fifth of a second of an answer, or a whole finished one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a response is written: `events` of them; `over` when no more will come."""

    events: int
    over: bool


@dataclass(slots=True)
class _Watch:
    """The responses that readers of one event loop wait for, and the task that looks at them."""

    readers: dict[UUID, int] = field(default_factory=dict)
    known: dict[UUID, Standing | None] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    @contextmanager
    def reading(self, response_id: UUID) -> Iterator[None]:
        self.readers[response_id] = self.readers.get(response_id, 0) + 1
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self.readers[response_id] -= 1
            if not self.readers[response_id]:
                del self.readers[response_id]
                self.known.pop(response_id, None)

    async def beyond(self, response_id: UUID, events: int) -> Standing | None:
        """Wait until more than `events` are written, or it is over; None when it was deleted."""
        async with self.changed:
            while True:
                if response_id in self.known:
                    standing = self.known[response_id]
                    if standing is None or standing.over or standing.events > events:
                        return standing
                await self.changed.wait()

    async def _look(self) -> None:
        while self.readers:
            ids = list(self.readers)
            for start in range(0, len(ids), A_STATEMENT):
                some = ids[start : start + A_STATEMENT]
                try:
                    found = await in_thread(partial(standings, some))
                except Error as error:
                    log.warning("open streams were not looked after: %s", type(error).__name__)
                    continue
                self.known.update({one: found.get(one) for one in some if one in self.readers})
            async with self.changed:
                self.changed.notify_all()
            await asyncio.sleep(TICK)


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


async def tail(response_id: UUID, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The records of the events after number `after`, to the last there will be.

    They come as they were written, whoever reads, however often. Raises NotFound for a response that
    is deleted meanwhile.
    """
    watch = _watches.setdefault(asyncio.get_running_loop(), _Watch())
    with watch.reading(response_id):
        while True:
            standing = await watch.beyond(response_id, after + 1)
            if standing is None:
                raise not_found()
            while batches := await in_thread(partial(_batches, response_id, after)):
                yield "".join(_later(batch, after) for batch in batches).encode()
                after = batches[-1].last
            if standing.over and after + 1 >= standing.events:
                return


def standings(ids: list[UUID]) -> dict[UUID, Standing]:
    rows = ChatResponse.objects.filter(pk__in=ids).values_list("pk", "events", "completed_at")
    return {pk: Standing(events, completed_at is not None) for pk, events, completed_at in rows}


def _batches(response_id: UUID, after: int) -> list[ResponseEvents]:
    later = ResponseEvents.objects.filter(response_id=response_id, last__gt=after).order_by("first")
    return list(later[:A_READ])


def _later(batch: ResponseEvents, after: int) -> str:
    if batch.first > after:
        return batch.data
    return "".join(record + RECORD_END for record in records_of(batch)[after + 1 - batch.first :])
