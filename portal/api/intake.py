"""How requests come in: of bounded size, in bounded time, and not all at once.

A server waits for a body for as long as its client cares to dribble it, and Django writes one of
any length to a file before it looks whom it is from, then gives each request a thread and each
thread a database connection. The lean doors read bodies with `read_body`; `Intake` stands before
Django.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error

from portal.api.handler import is_api_path
from portal.api.streaming import Message, Receive, Send
from portal.wire.errors import Problem, TooLarge, TooSlow, Unavailable, unavailable
from portal.wire.ids import accept_request_id

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 1_048_576
"""Bytes of a request body at the lean doors."""
BODY_SECONDS = 60.0
"""From the head of a request to the end of its body."""
SLOWEST = 131_072
"""Bytes a second that a body which takes longer has to make."""
ROOM = 32 * 2**20
"""Bytes that a door keeps of bodies whose senders it does not know yet, all of them together."""
AT_ONCE = 16
"""Requests that Django works on: as many as a process may have database connections (settings)."""
MOST_WAITING = 1_000
LARGE_AT_ONCE = 4
"""Larger bodies, of people whom we know, that are taken at the same time."""


class Room:
    """What bodies of unknown senders take while they are read: thousands may come at once, and each of
    them may stay for a minute."""

    def __init__(self, most: int = ROOM) -> None:
        self.most = most
        self.used = 0

    @property
    def is_short(self) -> bool:
        """Time to see who comes, before more is kept."""
        return self.used > self.most // 2

    def take(self, size: int) -> None:
        """Raises Unavailable when that is more than there is."""
        if self.used + size > self.most:
            raise unavailable()
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size


class Disconnected(Exception):
    """The client left before its request was whole: there is nobody to answer."""


def announced_size(headers: Mapping[str, str]) -> float:
    """Bytes of the body to come, 0 for none; infinite for one in chunks. `headers` by lower-case name."""
    if "transfer-encoding" in headers:
        return math.inf
    length = headers.get("content-length", "0")
    return float(length) if length.isascii() and length.isdigit() else math.inf


async def read_body(
    headers: Mapping[str, str],
    receive: Receive,
    seconds: float,
    largest: int = LARGEST_BODY,
    room: Room | None = None,
) -> bytes:
    """The whole body. Raises TooLarge as soon as its size is known, TooSlow, and Disconnected; in the
    `room` of unknown senders also Unavailable."""
    body = bytearray()
    try:
        async for piece in body_pieces(headers, receive, seconds, largest):
            if room is not None:
                room.take(len(piece))
            body += piece
    finally:
        if room is not None:
            room.give_back(len(body))
    return bytes(body)


async def body_pieces(
    headers: Mapping[str, str], receive: Receive, seconds: float, largest: int
) -> AsyncGenerator[bytes, None]:
    """The body as it comes; raises what `read_body` raises. A large one gets the longer, the more of it
    has come: nobody who sends less than `SLOWEST` outlasts `seconds` by much."""
    if largest < announced_size(headers) < math.inf:
        raise _too_large(largest)
    deadline, size, more = asyncio.get_running_loop().time() + seconds, 0, True
    while more:
        try:
            async with asyncio.timeout_at(deadline + size / SLOWEST):
                message = await receive()
        except TimeoutError:
            raise _too_slow() from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size > largest:
            raise _too_large(largest)
        yield piece
        more = message.get("more_body", False)


class Intake:
    """`application` with requests that are whole, not too large, and at most `at_once` at a time.

    A request takes its place when it is whole and gives it back when its answer begins, so that
    neither a slow sender nor a slow reader holds one.
    """

    def __init__(
        self,
        application: Application,
        *,
        at_once: int = AT_ONCE,
        seconds: float = BODY_SECONDS,
        largest: Callable[[Scope], Awaitable[int]] | None = None,
    ) -> None:
        """`largest`: how many bytes the body of a request may have; without it, what Django takes."""
        self.application = application
        self.seconds = seconds
        self.largest = largest or _usual
        self.places = asyncio.Semaphore(at_once)
        self.room = Room()
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)
        self.waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            largest = await self.largest(scope)
        except (Unavailable, Error):  # too many ask whom it is from, or nobody can tell
            await _refuse(unavailable(), scope, send)
            return
        is_large = largest > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        async with self.large if is_large else nullcontext():
            deadline = asyncio.get_running_loop().time() + self.seconds
            visit = _Visit(self, receive, send, deadline, largest, is_on_disk=is_large)
            try:
                await self.application(scope, visit.receive, visit.send)
            finally:
                visit.give_place_back()
                self.room.give_back(visit.kept)
            if visit.refused is not None:
                await _refuse(visit.refused, scope, send)

    async def take_place(self) -> None:
        """Raises Unavailable when too many wait already."""
        if self.waiting >= MOST_WAITING:
            raise unavailable()
        self.waiting += 1
        try:
            await self.places.acquire()
        finally:
            self.waiting -= 1


async def _usual(_: Scope) -> int:
    most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return most


@dataclass(slots=True)
class _Visit:
    """One request on its way in and its answer on its way out."""

    intake: Intake
    receive_more: Receive
    send_on: Send
    deadline: float
    largest: int
    size: int = 0
    kept: int = 0
    """Bytes of its body that are in memory: Django keeps them until it has answered."""
    is_on_disk: bool = False
    """Django writes a body to a file that is larger than those of unknown senders may be."""
    is_whole: bool = False
    has_place: bool = False
    refused: Problem | None = None

    async def receive(self) -> Message:
        """Whoever is refused looks to the application as if they had left: it puts everything away."""
        if self.is_whole:
            return await self.receive_more()
        try:
            return await self._receive_in_time()
        except Problem as problem:
            self.refused = problem
            return {"type": "http.disconnect"}

    async def _receive_in_time(self) -> Message:
        try:
            async with asyncio.timeout_at(self.deadline + self.size / SLOWEST):
                message = await self.receive_more()
        except TimeoutError:
            raise _too_slow() from None
        self.size += len(message.get("body", b""))
        if self.size > self.largest:
            raise _too_large(self.largest)
        if not self.is_on_disk:
            self.intake.room.take(self.size - self.kept)
            self.kept = self.size
        if message["type"] == "http.request" and not message.get("more_body"):
            self.is_whole = True
            await self.intake.take_place()
            self.has_place = True
        return message

    async def send(self, message: Message) -> None:
        self.give_place_back()
        await self.send_on(message)

    def give_place_back(self) -> None:
        if self.has_place:
            self.has_place = False
            self.intake.places.release()


async def _refuse(problem: Problem, scope: Scope, send: Send) -> None:
    """The envelope for scripts, one line for people: Django has not seen this request."""
    is_api = is_api_path(scope["path"])
    body = problem.encoded() if is_api else problem.message.encode()
    asked = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    headers = {
        "Content-Type": "application/json" if is_api else "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Request-Id": accept_request_id(asked),
        **problem.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _too_large(largest: int) -> TooLarge:
    return TooLarge(f"The body is larger than {largest:,} bytes.", code="payload_too_large")


def _too_slow() -> TooSlow:
    return TooSlow("The body did not arrive in time: send it again.", headers={"Connection": "close"})
