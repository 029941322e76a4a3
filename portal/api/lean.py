"""The lean doors: hot API routes served straight from ASGI (SPEC 10.15, docs/decisions/0010).

A request is read on the event loop, answered whole in one thread of the database pool, and
written on the event loop again. No middleware, no DRF dispatch, no thread made per request. They
share the rest of the house's plumbing: its authentication, its error shapes, its limits. Where the
answer takes its time, the thread only lets the caller in, and the event loop makes the answer
(`portal.api.streaming`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.conf import settings

from portal.api.auth import authenticate, recall, require_scope
from portal.api.bodies import check_content_type, read_json
from portal.api.cors import cors_headers
from portal.api.handler import nothing_here, problem_of
from portal.api.intake import (
    BODY_SECONDS,
    LARGEST_BODY,
    Disconnected,
    Room,
    announced_size,
    body_pieces,
    read_body,
)
from portal.api.reading import fits, headers_of, parts_of, query_of, usual
from portal.api.streaming import (
    STREAM_HEADERS,
    ClientLeft,
    Message,
    Presence,
    Receive,
    Send,
    Stream,
    Wire,
    stopping,
    while_present,
)
from portal.api.threads import run_in_database
from portal.services.limits import admit_request
from portal.services.principal import Principal
from portal.wire.errors import MethodNotAllowed, Problem
from portal.wire.gateway import encoded, is_gateway_path
from portal.wire.ids import accept_request_id

LARGE = 65_536
"""Bytes of a body for which its sender has to show a key first."""
LARGE_AT_ONCE = 4
"""Bodies above `LARGEST_BODY` that a process has in memory: one of 28 MiB is there three times while it
is parsed. The others wait on their senders' side."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read. `headers` are by lower-case name, `parts` what the path's braces name."""

    method: str
    path: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer: str | None
    request_id: str
    presence: Presence

    def json(self) -> object:
        """Raises NotJson and BadRequest."""
        check_content_type(self.headers.get("content-type", ""), self.headers.get("content-encoding", ""))
        return read_json(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Later:
    """A plain answer that is still to be made: on the event loop, while the client waits for it. `give_up` is
    called in its place when the client has left by then: it releases what was opened."""

    make: Callable[[], Awaitable[Answer]]
    headers: Mapping[str, str] = field(default_factory=dict)
    give_up: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """`size` bytes, sent as they are read. What `pieces` raises before the first is an answer of its own;
    later it can only break the connection off."""

    pieces: Callable[[], AsyncGenerator[bytes, None]]
    size: int
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Answer | Later | Stream | Download


@dataclass(frozen=True, slots=True)
class KeyRoute:
    """A door that a key with `scope` opens; "" leaves that to the door. `door` runs in a database thread."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Reply]
    largest: int = LARGEST_BODY
    """Bytes of a body. Those above `LARGEST_BODY` are read and worked on a few at a time."""

    async def look_first(self, call: Call) -> None:
        """Raises what a stranger gets, before a large body is waited for."""
        await run_in_database(partial(authenticate, call.headers, call.peer, call.request_id))

    async def reply(self, call: Call) -> Reply:
        return await run_in_database(partial(self._serve, call))

    def _serve(self, call: Call) -> Reply:
        limits: dict[str, str] = {}
        answer: Reply
        try:
            answer = self.door(call, _let_in(call, self.scope, limits))
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers})


@dataclass(frozen=True, slots=True)
class SwiftRoute:
    """A door that hundreds pass at once; `scope` as above. `door` runs on the event loop and must not block
    it; a caller who was let in a moment ago passes without a look at the database."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Awaitable[Reply]]
    largest: int = LARGEST_BODY

    async def look_first(self, call: Call) -> None:
        """Raises what a stranger gets, before a large body is waited for."""
        await run_in_database(partial(authenticate, call.headers, call.peer, call.request_id))

    async def reply(self, call: Call) -> Reply:
        limits: dict[str, str] = {}
        answer: Reply
        try:
            who = recall(call.headers, call.peer, call.request_id)
            if who is None:
                who = await run_in_database(partial(_let_in, call, self.scope, limits))
            if self.scope:
                require_scope(who, self.scope)
            answer = await self.door(call, who)
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers}) if limits else answer


@dataclass(frozen=True, slots=True)
class UploadRoute:
    """A door that reads its body itself, as it comes. `door` runs on the event loop, after the caller was
    let in; of a body it gets at most `largest` bytes."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal, AsyncIterator[bytes]], Awaitable[Answer]]
    largest: int

    async def reply(self, call: Call, body: AsyncIterator[bytes]) -> Reply:
        limits: dict[str, str] = {}
        try:
            who = await run_in_database(partial(_let_in, call, self.scope, limits))
            answer = await self.door(call, who, body)
        except Disconnected:
            raise
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id), call.path)
        return replace(answer, headers={**limits, **answer.headers})


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """A door without a lock. `door` runs on the event loop and must not block it."""

    method: str
    path: str
    door: Callable[[Call], Awaitable[Answer]]

    async def look_first(self, call: Call) -> None:
        """Everybody may."""

    async def reply(self, call: Call) -> Reply:
        return await self.door(call)


Route = KeyRoute | SwiftRoute | OpenRoute | UploadRoute


def _let_in(call: Call, scope: str, limits: dict[str, str]) -> Principal:
    """Whose call it is, counted. `limits` takes the headers that say so, also when it is refused."""
    who = authenticate(call.headers, call.peer, call.request_id)
    limits.update(admit_request(who).headers)
    if scope:
        require_scope(who, scope)
    return who


class Doors:
    """An ASGI application for the paths that its routes begin with: `/v1/agent` claims all of `/v1`, and
    the gateway's paths claim what lies beneath them."""

    def __init__(self, routes: Sequence[Route], *, body_seconds: float = BODY_SECONDS) -> None:
        self.body_seconds = body_seconds
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)
        self.room = Room()
        self.routes = [(route, tuple(route.path.split("/")[1:])) for route in routes]
        self.plain = {route.path: self._at(route.path) for route in routes if "{" not in route.path}
        self.roots = {path[0] for route, path in self.routes if not is_gateway_path(route.path)}

    def serves(self, path: str) -> bool:
        path = usual(path)
        return is_gateway_path(path) or (path.startswith("/") and path[1:].partition("/")[0] in self.roots)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        presence = Presence(receive)
        try:
            await self._serve({**scope, "path": usual(scope["path"])}, presence, send)
        finally:
            presence.end()

    async def _serve(self, scope: Mapping[str, Any], presence: Presence, send: Send) -> None:
        headers = headers_of(scope["headers"])
        request_id = accept_request_id(headers.get("x-request-id"))
        reply: Reply
        try:
            reply = await self._reply(scope, headers, request_id, presence)
        except Disconnected:
            return
        except Exception as error:  # whatever it is, it becomes an answer
            reply = answer_of(problem_of(error, request_id), scope["path"])
        cors = cors_headers(
            headers.get("origin"), settings.CORS_ORIGINS, preflight=_is_preflight(scope, headers)
        )
        exchange = _Exchange(presence, send, {**cors, "X-Request-Id": request_id}, request_id, scope["path"])
        await exchange.answer(reply, with_body=scope["method"] != "HEAD")

    async def _reply(
        self, scope: Mapping[str, Any], headers: Mapping[str, str], request_id: str, presence: Presence
    ) -> Reply:
        found = self._find(scope["path"])
        methods = _allowed(found)
        if scope["method"] == "OPTIONS":
            return Answer(b"", 204, {"Allow": methods})
        route = found.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if route is None:
            raise MethodNotAllowed(f"Use one of these methods here: {methods}.", headers={"Allow": methods})
        call = Call(
            method=scope["method"],
            path=scope["path"],
            parts=parts_of(route.path, scope["path"]),
            query=query_of(scope["query_string"]),
            headers=headers,
            body=b"",
            peer=scope["client"][0] if scope.get("client") else None,
            request_id=request_id,
            presence=presence,
        )
        receive = presence.receive
        if isinstance(route, UploadRoute):
            return await route.reply(call, body_pieces(headers, receive, self.body_seconds, route.largest))
        if route.method != "POST":
            return await route.reply(call)
        size, largest, room = announced_size(headers), _largest(route), None
        if size > LARGE or self.room.is_short:
            await route.look_first(call)
        else:
            room = self.room
        async with self.large if min(size, largest) > LARGEST_BODY else nullcontext():
            body = await read_body(headers, receive, self.body_seconds, largest, room)
            return await route.reply(replace(call, body=body))

    def _find(self, path: str) -> dict[str, Route]:
        """The routes at `path`, by method. Raises NotFound."""
        found = self.plain.get(path) or self._fitting(path)
        if not found:
            raise nothing_here()
        return found

    def _at(self, path: str) -> dict[str, Route]:
        """By exactly this name, so that it is never taken for an id, by whatever method."""
        return {route.method: route for route, _ in self.routes if route.path == path}

    def _fitting(self, path: str) -> dict[str, Route]:
        asked = tuple(path.split("/")[1:])
        return {route.method: route for route, pattern in self.routes if fits(pattern, asked)}


def _largest(route: KeyRoute | SwiftRoute | OpenRoute) -> int:
    return LARGEST_BODY if isinstance(route, OpenRoute) else route.largest


def answer_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """`value` with a space after colon and comma: the seed's shell loop greps for it (SPEC 10.13)."""
    return Answer(json.dumps(value, ensure_ascii=False).encode(), status, headers or {})


def answer_of(problem: Problem, path: str) -> Answer:
    """As clients of this path read errors."""
    return Answer(encoded(problem, path), problem.status, problem.headers)


def _allowed(found: Mapping[str, Route]) -> str:
    also = {"OPTIONS", "HEAD"} if "GET" in found else {"OPTIONS"}
    return ", ".join(sorted({*found, *also}))


def _is_preflight(scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request's way back; `extra` are headers that every answer has."""

    presence: Presence
    send: Send
    extra: Mapping[str, str]
    request_id: str
    path: str

    async def answer(self, reply: Reply, *, with_body: bool) -> None:
        """`with_body`: but for `HEAD`."""
        if self.presence.left:
            if isinstance(reply, Later | Stream) and reply.give_up is not None:
                await reply.give_up()
        elif isinstance(reply, Stream):
            await self.stream(reply)
        elif isinstance(reply, Download):
            await self.download(reply, with_body=with_body)
        elif isinstance(reply, Later):
            await self.wait(reply)
        else:
            await self.send_whole(reply, with_body=with_body)

    async def send_whole(self, answer: Answer, *, with_body: bool = True) -> None:
        length = {"Content-Type": "application/json", "Content-Length": str(len(answer.body))}
        kind = length if answer.status != 204 else {}
        await self.send(self._start(answer.status, {**kind, "Cache-Control": "no-store", **answer.headers}))
        await self.send({"type": "http.response.body", "body": answer.body if with_body else b""})

    async def wait(self, later: Later) -> None:
        try:
            async with while_present(self.presence):
                answer = await later.make()
        except ClientLeft:
            return
        except asyncio.CancelledError:  # by the stopping server, which would log whatever else it is told
            await self.send_whole(answer_of(stopping(), self.path))
            return
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, self.request_id), self.path)
        await self.send_whole(replace(answer, headers={**later.headers, **answer.headers}))

    async def download(self, file: Download, *, with_body: bool) -> None:
        """The server breaks off a connection whose answer was never ended: nobody takes a part for the
        whole."""
        length = {"Cache-Control": "no-store", "Content-Length": str(file.size)}
        start = self._start(200, {**length, **file.headers})
        if not with_body:
            await self.send(start)
            await self.send({"type": "http.response.body", "body": b""})
            return
        wire = Wire(self.send, start)
        try:
            async with while_present(self.presence, wire.check_reader), aclosing(file.pieces()) as pieces:
                async for piece in pieces:
                    await wire.write(piece)
        except ClientLeft:
            return
        except Exception as error:  # whatever it is, it becomes an answer, as long as none has begun
            problem = problem_of(error, self.request_id)
            if not wire.begun:
                await self.send_whole(answer_of(problem, self.path))
        else:
            await wire.end()

    async def stream(self, stream: Stream) -> None:
        wire = Wire(self.send, self._start(200, {**STREAM_HEADERS, **stream.headers}))
        try:
            async with while_present(self.presence, wire.breathe), aclosing(stream.pieces()) as pieces:
                async for piece in pieces:
                    await wire.write(piece)
        except ClientLeft:
            return
        except asyncio.CancelledError:  # as above
            await self._fail(wire, stream, stopping())
        except Exception as error:  # whatever it is, it becomes an answer
            await self._fail(wire, stream, problem_of(error, self.request_id))
        else:
            await wire.end()

    async def _fail(self, wire: Wire, stream: Stream, problem: Problem) -> None:
        """An error of its own while nothing was sent, else the stream's last words."""
        if wire.begun:
            return await wire.end(stream.last_words(problem))
        answer = answer_of(problem, self.path)
        return await self.send_whole(replace(answer, headers={**stream.headers, **answer.headers}))

    def _start(self, status: int, headers: Mapping[str, str]) -> Message:
        whole = {"X-Content-Type-Options": "nosniff", **headers, **self.extra}
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in whole.items()]
        return {"type": "http.response.start", "status": status, "headers": raw}
