"""Where asynchronous doors do their database work: a bounded pool of threads.

Django's connections belong to a thread. Work runs whole in one thread and gives its connection
back before the answer goes out, so no request keeps one while it waits for the network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from django.db import Error, connections

from portal.wire.errors import unavailable

Result = TypeVar("Result")
THREADS = 8
"""Fewer than a process's database connections (settings: 16), so that none waits for one."""
MOST_WAITING = 1_000


class DatabaseThreads:
    def __init__(self, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="door")
        self._most = threads + most_waiting
        self._taken = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`. Raises Unavailable, without starting it, when too many wait."""
        if self._taken >= self._most:
            raise unavailable()
        self._taken += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _visit, work)
        finally:
            self._taken -= 1


def _visit(work: Callable[[], Result]) -> Result:
    try:
        return work()
    finally:
        # What was committed stays so: a connection that breaks now must not turn its answer into an error.
        with suppress(Error):
            connections.close_all()


_threads = DatabaseThreads()


async def run_in_database(work: Callable[[], Result]) -> Result:
    """Run `work` in this process's pool: one visit, one connection, given back at its end."""
    return await _threads.run(work)
