"""How an open answer is left: at once, or behind the reader's back once it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from proxy.upstream.web import Broke, Opened

TAIL_SECONDS = 1.0
"""What the rest of an answer may take that has ended."""
_tails: set[asyncio.Task[None]] = set()


async def part(opened: Opened, chunks: AsyncGenerator[bytes, None], *, whole: bool) -> None:
    """Close the connection, whoever is cancelled meanwhile. What is left of an answer that has ended is
    read first, behind the reader's back, so that the connection serves the next one."""
    if opened.is_over:
        return await _close(opened, chunks)  # which waits for nothing then
    tail = asyncio.create_task(_read_tail(opened, chunks, whole=whole))
    _tails.add(tail)
    tail.add_done_callback(_tails.discard)
    if not whole:
        await asyncio.shield(tail)
    return None


async def _read_tail(opened: Opened, chunks: AsyncGenerator[bytes, None], *, whole: bool) -> None:
    try:
        if whole:
            with suppress(Broke, TimeoutError):
                async with asyncio.timeout(TAIL_SECONDS):
                    async for _ in chunks:
                        pass
    finally:
        await _close(opened, chunks)


async def _close(opened: Opened, chunks: AsyncGenerator[bytes, None]) -> None:
    await chunks.aclose()
    await opened.close()
