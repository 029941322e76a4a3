"""Long texts are cleaned in a thread, so that everybody else's answers go on meanwhile.

A hundred KiB take some 50 ms, twice when they come with the end. On the event loop all would wait for
that, and whoever leaves would be noticed as much later.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from proxy.protocol.delta import Delta, Done, Text
from proxy.protocol.finishing import Finisher

LONG = 32 * 1024
"""Characters that are cleaned where they come."""

# One: several would not be faster, and would take the more of the event loop's time.
_thread = ThreadPoolExecutor(1, thread_name_prefix="clean")


async def cleaned(finisher: Finisher, deltas: list[Delta]) -> list[Delta]:
    """What the finisher passes on of these. Who is cancelled meanwhile leaves it to itself."""
    if not any(_is_long(delta) for delta in deltas):
        return finisher.pass_on(deltas)
    return await asyncio.get_running_loop().run_in_executor(_thread, finisher.pass_on, deltas)


def _is_long(delta: Delta) -> bool:
    text = delta.text if isinstance(delta, Text) else delta.answer if isinstance(delta, Done) else ""
    return len(text) > LONG
