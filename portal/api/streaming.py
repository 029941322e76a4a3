"""Answers that take their time: event streams, and plain ones that wait for somebody else.

They are made on the event loop, for as long as the client is there: when it leaves, the making is
cancelled at that moment, wherever it stands, and cleans up after itself. A server that stops waits
for them, and cancels them when its grace is over; they then say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from portal.wire.errors import Problem, Unavailable
from portal.wire.sse import encode_comment

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

KEEPALIVE_SECONDS = 15.0
STALLED_SECONDS = 60.0
"""A client that takes nothing for so long has gone, whatever its connection says."""
STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class ClientLeft(Exception):
    """There is nobody to answer any more."""


class Presence:
    """Whether a client is still there. It is watched from when somebody first wants to know, once its body
    was read, to the end of its request; `left` may be read from any thread."""

    def __init__(self, receive: Receive) -> None:
        self.left = False
        self.receive = receive
        self._leave: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    @contextmanager
    def telling(self, leave: Callable[[], None]) -> Iterator[None]:
        """Within the block `leave` is called at once when the client leaves, or has left. One at a time."""
        self.watch()
        self._leave = leave
        try:
            if self.left:
                leave()
            yield
        finally:
            self._leave = None

    def end(self) -> None:
        """Nobody wants to know any more."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.left = True
        if self._leave is not None:
            self._leave()


@dataclass(frozen=True, slots=True)
class Stream:
    """An event stream. Each piece is one or more whole records, and goes out in one write.

    While there is no piece, `pieces` may raise: that is an answer of its own, with its status. What it
    raises later is told by `last_words`, and the stream ends. After `KEEPALIVE_SECONDS` without a piece
    the stream begins all the same, with a comment: no proxy on the way takes the silence for death.

    `give_up` is called in place of `pieces` when the client has left by then: it releases what was opened.
    """

    pieces: Callable[[], AsyncGenerator[bytes, None]]
    last_words: Callable[[Problem], bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    give_up: Callable[[], Awaitable[None]] | None = None


@asynccontextmanager
async def while_present(
    presence: Presence, breathe: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[None]:
    """Run the block until it ends or the client leaves, which cancels it: `ClientLeft`.

    `breathe` is called every `KEEPALIVE_SECONDS`; when it raises `ClientLeft`, that is so.
    """
    limit = asyncio.timeout(None)

    def leave() -> None:
        limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with limit:
            breathing = breathe and asyncio.create_task(_breathe(breathe, leave))
            try:
                with presence.telling(leave):
                    yield
            finally:
                if breathing is not None:
                    breathing.cancel()
    except TimeoutError:
        if limit.expired():
            raise ClientLeft from None
        raise


async def _breathe(breathe: Callable[[], Awaitable[None]], leave: Callable[[], None]) -> None:
    with suppress(ClientLeft):
        while True:
            await asyncio.sleep(KEEPALIVE_SECONDS)
            await breathe()
    leave()


class Wire:
    """One event stream as the client sees it: `start` is sent before its first piece."""

    def __init__(self, send: Send, start: Message) -> None:
        self.begun = False
        self._send = send
        self._start = start
        self._wrote_at = 0.0
        self._writing = False

    async def write(self, piece: bytes) -> None:
        self._writing = True
        self._wrote_at = asyncio.get_running_loop().time()
        if not self.begun:
            self.begun = True
            await self._send(self._start)
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self._writing = False

    async def breathe(self) -> None:
        """A comment, when nothing went out for a while. Raises `ClientLeft` for a reader that stalls."""
        await self.check_reader()
        silent = asyncio.get_running_loop().time() - self._wrote_at
        if not self._writing and silent >= KEEPALIVE_SECONDS / 3:
            await self.write(encode_comment())

    async def check_reader(self) -> None:
        """Raises `ClientLeft` for a reader that stalls."""
        if self._writing and asyncio.get_running_loop().time() - self._wrote_at > STALLED_SECONDS:
            raise ClientLeft

    async def end(self, piece: bytes = b"") -> None:
        """The end, also of a stream that had nothing to say."""
        with suppress(OSError):
            if not self.begun:
                await self._send(self._start)
            await self._send({"type": "http.response.body", "body": piece, "more_body": False})


def stopping() -> Unavailable:
    """What clients are told whose answer the stopping server gives up."""
    return Unavailable("The service is restarting: try again in a moment.", headers={"Retry-After": "2"})
