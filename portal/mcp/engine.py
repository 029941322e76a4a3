"""A worker for the stdio server of an embedded portal that is not running: only for as long as it has work.

The data folder serves one process at a time. Whoever starts the portal while an assistant is open must
find it free, so it is given back as soon as no run is under way.
"""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings
from django.db import Error

from portal.api.threads import run_in_database
from portal.data_folder import FolderInUse
from portal.embedded import Embedded, PortTaken
from portal.running.preparation import NotReady
from research.queries import any_run_is_live

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


async def lend_worker() -> None:
    """Until it is cancelled."""
    if settings.CLUSTER:
        return
    parts: Embedded | None = None
    try:
        while True:
            is_needed = await _is_needed(otherwise=parts is not None)
            if is_needed and parts is None:
                parts = await asyncio.to_thread(_start)
            elif parts is not None and not is_needed:
                ended, parts = parts, None
                await asyncio.to_thread(ended.stop)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        if parts is not None:
            await asyncio.to_thread(parts.stop)


async def _is_needed(*, otherwise: bool) -> bool:
    """A database that is busy for a moment ends no worker: the next look tells."""
    try:
        return await run_in_database(any_run_is_live)
    except Error as error:
        log.warning("could not look for work: %s", type(error).__name__)
        return otherwise


def _start() -> Embedded | None:
    """None while a portal, or another command, has the folder: that one does the work."""
    parts = Embedded()
    try:
        parts.start()
    except FolderInUse:
        return None
    except (NotReady, PortTaken) as error:
        parts.stop()
        log.warning("no worker: %s", error)
        return None
    return parts
