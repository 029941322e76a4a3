"""How a message finds the process that holds its event stream (mcp-server §4.1).

A legacy client opens a stream at one web process and posts its messages to any. A box is open for as
long as its stream lives; what is posted to a box that nobody has open is refused. Its name holds the
key that opened it, so that a stranger's message finds no box.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from portal.wire.errors import unavailable

MOST_LETTERS = 64
"""Messages that wait for a reader; whoever sends more is told to wait."""
PATIENCE = 2.0
"""Seconds for Redis to answer."""
LOOK_SECONDS = 5.0
"""Of silence, before Redis is asked whether it is there."""
PREFIX = "sonde.mcp."


class Mailboxes(Protocol):
    def open(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The letters that are posted from now on, in order."""

    async def post(self, name: str, letter: bytes) -> bool:
        """Whether the box is open. Raises Unavailable when it takes none at present."""

    async def close(self) -> None:
        """When all boxes are closed."""


class LocalMailboxes:
    """One process has all streams, and all messages."""

    def __init__(self) -> None:
        self._boxes: dict[str, asyncio.Queue[bytes]] = {}

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        box = self._boxes[name] = asyncio.Queue(MOST_LETTERS)
        try:
            yield _letters(box)
        finally:
            del self._boxes[name]

    async def post(self, name: str, letter: bytes) -> bool:
        box = self._boxes.get(name)
        if box is None:
            return False
        try:
            box.put_nowait(letter)
        except asyncio.QueueFull:
            raise unavailable() from None
        return True

    async def close(self) -> None:
        pass


class RedisMailboxes:
    """Redis counts who listens when it publishes: none means that there is no such stream."""

    def __init__(self, url: str, *, look_seconds: float = LOOK_SECONDS) -> None:
        def client(retries: int) -> Redis:
            return Redis.from_url(
                url,
                socket_connect_timeout=PATIENCE,
                socket_timeout=PATIENCE,
                retry=Retry(NoBackoff(), retries),
            )

        self._look_seconds = look_seconds
        self._posting = client(1)
        # Letters of the meantime would be lost to a connection that is made anew.
        self._listening = client(0)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._listening.pubsub() as listening:
            try:
                await listening.subscribe(PREFIX + name)
                begun = await listening.get_message(timeout=PATIENCE)
            except RedisError:
                raise unavailable() from None
            if begun is None:
                raise unavailable()
            yield _published(listening, self._look_seconds)

    async def post(self, name: str, letter: bytes) -> bool:
        try:
            return bool(await self._posting.publish(PREFIX + name, letter))
        except RedisError:
            raise unavailable() from None

    async def close(self) -> None:
        await self._posting.aclose()
        await self._listening.aclose()


async def _letters(box: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await box.get()


async def _published(listening: PubSub, look_seconds: float) -> AsyncIterator[bytes]:
    """Ends when Redis is gone, was gone or says nothing to a ping: the client opens another stream then."""
    is_asked = False
    with suppress(RedisError):
        while True:
            message = await listening.get_message(timeout=look_seconds)
            if message is None and is_asked:
                return
            is_asked = message is None
            if message is None:
                await listening.ping()
            elif message["type"] == "message":
                yield message["data"]
