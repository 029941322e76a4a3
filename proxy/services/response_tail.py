"""Readers of background responses: they follow the rows, on whichever web process they are.

All readers of an event loop share one look (`portal.live.news`). Only who is behind reads rows. So a
thousand open streams are a few statements a second.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from functools import partial
from uuid import UUID
from weakref import WeakKeyDictionary

from portal.live.news import News
from portal.wire.errors import no_response
from proxy.models.responses import ChatResponse, ResponseEvents
from proxy.services.response_rows import RECORD_END, records_of
from proxy.services.threads import in_thread

TICK = 0.2
"""Seconds between two looks."""
A_READ = 50
"""Writes that are read at once; each holds a fifth of a second of an answer, or a whole finished one."""
OVER = sys.maxsize
"""As far as a response is written that has ended: beyond every number that a reader may wait for."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a look at the rows brought; `is_last` when nothing will follow it."""

    batches: tuple[ResponseEvents, ...]
    is_last: bool


_news: WeakKeyDictionary[asyncio.AbstractEventLoop, News] = WeakKeyDictionary()


async def tail(response_id: UUID, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The records of the events after number `after`, to the last there will be.

    They come as they were written, whoever reads, however often. Raises NotFound for a response that
    is deleted meanwhile.
    """
    news = _news.setdefault(asyncio.get_running_loop(), News(written, in_thread, pause=TICK))
    while True:
        stretch = await news.read(partial(read_on, response_id, after))
        if stretch.batches:
            yield "".join(_later(batch, after) for batch in stretch.batches).encode()
            after = stretch.batches[-1].last
        if stretch.is_last:
            return
        if len(stretch.batches) < A_READ:
            await news.after(response_id, after + 1)


def written(ids: Collection[UUID]) -> dict[UUID, int]:
    """How many events of each response there are."""
    rows = ChatResponse.objects.filter(pk__in=ids).values_list("pk", "events", "completed_at")
    return {pk: events if ended is None else OVER for pk, events, ended in rows}


def read_on(response_id: UUID, after: int) -> Stretch:
    """The next writes after event `after`."""
    standing = ChatResponse.objects.filter(pk=response_id).values_list("events", "completed_at").first()
    if standing is None:
        raise no_response()
    events, completed_at = standing
    later = ResponseEvents.objects.filter(response_id=response_id, last__gt=after).order_by("first")
    batches = tuple(later[:A_READ])
    last = batches[-1].last if batches else after
    return Stretch(batches, completed_at is not None and last + 1 >= events)


def _later(batch: ResponseEvents, after: int) -> str:
    if batch.first > after:
        return batch.data
    return "".join(record + RECORD_END for record in records_of(batch)[after + 1 - batch.first :])
