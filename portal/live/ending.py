"""Tells whoever only waits in this process that the server is about to stop.

A server that stops gives what is under way its grace. What waits for nothing but its client, or for a
run that goes on without it, would use up all of it: it asks here, and ends in order at once.
"""

from __future__ import annotations

import asyncio


class Ending:
    """For one event loop, and once."""

    def __init__(self) -> None:
        self.has_begun = False
        self._waiting: set[asyncio.Future[None]] = set()

    def begin(self) -> None:
        self.has_begun = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def begun(self) -> None:
        """Returns when it begins, or at once when it has."""
        if self.has_begun:
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)


of_server = Ending()
"""This process's own; `portal.running.server` begins it."""
