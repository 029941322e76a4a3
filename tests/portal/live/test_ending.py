"""Whoever only waits is told that the server is about to stop."""

from __future__ import annotations

import asyncio

from portal.live.ending import Ending


async def test_it_tells_everybody_who_waits_and_whoever_comes_later() -> None:
    ending = Ending()
    waiting = [asyncio.create_task(ending.begun()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    ending.begin()
    await asyncio.gather(*waiting, ending.begun())
    ending.begin()
    assert ending.has_begun


async def test_it_forgets_who_waits_no_longer() -> None:
    ending = Ending()
    waiting = asyncio.create_task(ending.begun())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    ending.begin()
    assert waiting.cancelled()
