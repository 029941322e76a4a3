"""Looking at a run until it ends or the caller's patience does. The run goes on either way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from portal.api.threads import run_in_database
from portal.api.tools import Tell
from portal.services.principal import Principal
from portal.wire.ids import parse_response_id
from research.protocol.answer import RunView
from research.protocol.shell import progress_line
from research.queries import find_run
from research.services.views import view_of

LOOK_SECONDS = 1.0
"""Between two looks; progress is told at most as often."""


@dataclass(frozen=True, slots=True)
class Look:
    """A run as it was at one moment. `words` say what it is doing."""

    view: RunView
    budget: int
    words: str


async def look(who: Principal, public_id: str) -> Look:
    """The caller's own run. Raises NotFound."""
    return await run_in_database(lambda: look_now(who, parse_response_id(public_id)))


async def look_until_end(who: Principal, public_id: str, seconds: float, tell: Tell) -> Look:
    """The run when it has ended, or as it is after `seconds`. Raises NotFound."""
    clock = asyncio.get_running_loop().time
    began = clock()
    found = await look(who, public_id)
    while not found.view.is_terminal:
        waited = clock() - began
        if waited >= seconds:
            break
        await tell(waited, seconds, found.words)
        await asyncio.sleep(min(LOOK_SECONDS, seconds - waited))
        found = await look(who, public_id)
    return found


def look_now(who: Principal, run_id: UUID | None) -> Look:
    run = find_run(who, run_id)
    elapsed = int((timezone.now() - run.created_at).total_seconds())
    words, clock = progress_line(run.progress, run.status, elapsed, run.usual_seconds)
    return Look(view_of(run), run.time_budget, f"{words}: {clock}")
