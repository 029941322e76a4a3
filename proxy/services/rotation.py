"""Sessions that get a new token with every answer, and are refused when they show an old one.

Such a session is asked one question at a time, until the answer's head is there and its token is
stored; the answers themselves then run side by side. Which sessions do so is learned from their
answers, in each process by itself: of several processes, each may be one token behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from proxy.protocol.session import TOKEN

_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Lock]] = WeakKeyDictionary()


def learn(account_id: int) -> None:
    """From now on this loop asks the account one question at a time."""
    _mine().setdefault(account_id, asyncio.Lock())


def brings_token(set_cookies: Iterable[str]) -> bool:
    return any(line.startswith(TOKEN) for line in set_cookies)


@asynccontextmanager
async def in_turn(account_id: int) -> AsyncIterator[bool]:
    """Wait for the account's other questions where that is needed; whether it was, so that the cookies
    that one had before are to be read again."""
    lock = _mine().get(account_id)
    if lock is None:
        yield False
        return
    async with lock:
        yield True


def _mine() -> dict[int, asyncio.Lock]:
    return _locks.setdefault(asyncio.get_running_loop(), {})
