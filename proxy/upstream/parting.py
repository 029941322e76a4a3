"""How an open answer is left: at once, or behind the reader's back once it has ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from proxy.upstream.web import Broke, Opened

TAIL_SECONDS = 1.0
"""What the rest of an answer may take that has ended."""
_tails: set[asyncio.Task[None]] = set()


async def part(opened: Opened, *, whole: bool) -> None:
    """Close the connection, whoever is cancelled meanwhile. What is left of an answer that has ended is
    read first, behind the reader's back, so that the connection serves the next one."""
    if opened.is_over or not whole:
        return await opened.close()
    tail = asyncio.create_task(_read_tail(opened))
    _tails.add(tail)
    tail.add_done_callback(_tails.discard)
    return None


async def _read_tail(opened: Opened) -> None:
    try:
        with suppress(Broke, TimeoutError):
            async with asyncio.timeout(TAIL_SECONDS):
                while await opened.read():
                    pass
    finally:
        await opened.close()
