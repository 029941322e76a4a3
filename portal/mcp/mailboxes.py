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
from redis.exceptions import RedisError

from portal.wire.errors import unavailable

MOST_LETTERS = 64
"""Messages that wait for a reader; whoever sends more is told to wait."""
PATIENCE = 2.0
"""Seconds for Redis to answer."""
HEARTBEAT = 10
LOOK_SECONDS = 5.0
PREFIX = "sonde.mcp."


class Mailboxes(Protocol):
    def open(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The letters that are posted from now on, in order."""

    async def post(self, name: str, letter: bytes) -> bool:
        """Whether the box is open. Raises Unavailable when it takes none at present."""


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


class RedisMailboxes:
    """Redis counts who listens when it publishes: none means that there is no such stream."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE, health_check_interval=HEARTBEAT
        )

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._redis.pubsub() as listening:
            try:
                await listening.subscribe(PREFIX + name)
                begun = await listening.get_message(timeout=PATIENCE)
            except RedisError:
                raise unavailable() from None
            if begun is None:
                raise unavailable()
            yield _published(listening)

    async def post(self, name: str, letter: bytes) -> bool:
        try:
            return bool(await self._redis.publish(PREFIX + name, letter))
        except RedisError:
            raise unavailable() from None


async def _letters(box: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await box.get()


async def _published(listening: PubSub) -> AsyncIterator[bytes]:
    """Ends when Redis is gone: the client opens another stream then."""
    with suppress(RedisError):
        while True:
            message = await listening.get_message(ignore_subscribe_messages=True, timeout=LOOK_SECONDS)
            if message is not None and message["type"] == "message":
                yield message["data"]
