"""Looking at a run until it ends or the caller's patience does. The run goes on either way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import Error
from django.utils import timezone

from portal.api.threads import run_in_database
from portal.api.tools import Tell
from portal.live.ending import of_server
from portal.live.news import News
from portal.services.principal import Principal
from portal.wire.errors import Unavailable
from portal.wire.ids import parse_response_id
from research.models.runs import Run
from research.protocol.answer import RunView
from research.protocol.shell import progress_line
from research.queries import find_readable_run
from research.services.run_tail import events_written
from research.services.views import view_for

TELL_SECONDS = 1.0
"""Between two reports of progress."""
_news = News(events_written, run_in_database)


@dataclass(frozen=True, slots=True)
class Look:
    """A run as it was at one moment, up to its event `seq`."""

    run: Run
    view: RunView
    seq: int

    @property
    def budget(self) -> int:
        return self.run.time_budget

    def words(self, now: datetime) -> str:
        """What it is doing, and for how long already."""
        elapsed = int((now - self.run.created_at).total_seconds())
        words, clock = progress_line(self.run.progress, self.run.status, elapsed, self.run.usual_seconds)
        return f"{words}: {clock}"


async def look(who: Principal, public_id: str) -> Look:
    """A run that the caller may read. Raises NotFound."""
    return await run_in_database(lambda: look_now(who, parse_response_id(public_id)))


async def look_until_end(who: Principal, public_id: str, seconds: float, tell: Tell) -> Look:
    """The run when it has ended, or as it is after `seconds`, or when the server is about to stop: the
    caller asks again then. Raises NotFound."""
    clock = asyncio.get_running_loop().time
    began = clock()
    found = await look(who, public_id)
    while not found.view.is_terminal and not of_server.has_begun:
        waited = clock() - began
        if waited >= seconds:
            break
        await tell(waited, seconds, found.words(timezone.now()))
        if await _has_moved(found, min(TELL_SECONDS, seconds - waited)):
            with suppress(Error, Unavailable):  # what is known of it stands until the next look
                found = await look(who, public_id)
    return found


async def _has_moved(found: Look, seconds: float) -> bool:
    """Whether there is news of the run within `seconds`; not when the server is about to stop."""
    moved = asyncio.ensure_future(_news.after(found.run.pk, found.seq))
    ending = asyncio.ensure_future(of_server.begun())
    try:
        await asyncio.wait({moved, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return moved.done()
    finally:
        moved.cancel()
        ending.cancel()


def look_now(who: Principal, run_id: UUID | None) -> Look:
    run = find_readable_run(who, run_id)
    return Look(run, view_for(who, run), run.event_seq)
