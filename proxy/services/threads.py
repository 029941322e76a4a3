"""Database work of answers that are being made: a few threads of their own.

What ends an answer is never turned away and never waits behind the door's queue, or money would hang
on the crowd outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from django.db import Error, connections

Result = TypeVar("Result")
THREADS = 4
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="chat")


async def in_thread(work: Callable[[], Result]) -> Result:
    """The result of `work`: one visit, one connection, given back at its end."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _visit, work)


def _visit(work: Callable[[], Result]) -> Result:
    try:
        return work()
    finally:
        with suppress(Error):
            connections.close_all()
