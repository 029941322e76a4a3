"""How a request that starts a run is taken in: together with others, or alone where it takes its time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from portal.api.intake import LARGEST_BODY
from portal.api.routes import Call
from portal.api.threads import run_in_database
from portal.services.principal import Principal
from portal.wire.fields import Fields, fields_of
from proxy.protocol.attachments import LARGEST_INLINE
from research.models.runs import Door
from research.protocol.options import RunRequest
from research.services.start import Started, start_run
from research.services.together import Asking, start_soon

Read = TypeVar("Read")
LARGEST_REQUEST = LARGEST_BODY + LARGEST_INLINE
"""Bytes."""
AT_ONCE = 64 * 1024
"""Bytes of a request that is read on the event loop, and started in a round: longer ones would hold the
others up."""


async def fields_in(call: Call) -> Fields:
    return await read_soon(call, lambda: fields_of(call.json()))


async def read_soon(call: Call, read: Callable[[], Read]) -> Read:
    """What `read` makes of the call's body; the event loop does not wait for a long one."""
    return await run_in_database(read) if _is_long(call) else read()


async def start(call: Call, who: Principal, request: RunRequest) -> Started:
    """Raises what `start_run` raises."""
    if not _is_long(call):
        started = await start_soon(Asking(who, request, Door.REST))
        if started is not None:
            return started
    return await run_in_database(partial(start_run, who, request, Door.REST))


def _is_long(call: Call) -> bool:
    return len(call.body) >= AT_ONCE
