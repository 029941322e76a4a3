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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings

from portal.api.auth import authenticate, require_scope
from portal.api.bodies import check_content_type, read_json
from portal.api.cors import cors_headers
from portal.api.handler import nothing_here, problem_of
from portal.api.intake import BODY_SECONDS, Disconnected, announced_size, read_body
from portal.api.streaming import (
    STREAM_HEADERS,
    ClientLeft,
    Message,
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
from portal.wire.errors import BadRequest, MethodNotAllowed, Problem
from portal.wire.gateway import encoded, is_gateway_path
from portal.wire.ids import accept_request_id

LARGE = 65_536
"""Bytes of a body for which its sender has to show a key first."""
REST = ":path}"


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
    """A plain answer that is still to be made: on the event loop, while the client waits for it."""

    make: Callable[[], Awaitable[Answer]]
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Answer | Later | Stream


@dataclass(frozen=True, slots=True)
class KeyRoute:
    """A door that a key with `scope` opens. `door` runs in a database thread."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Reply]

    async def look_first(self, call: Call) -> None:
        """Raises what a stranger gets, before a large body is waited for."""
        await run_in_database(partial(authenticate, call.headers, call.peer, call.request_id))

    async def reply(self, call: Call) -> Reply:
        return await run_in_database(partial(self._serve, call))

    def _serve(self, call: Call) -> Reply:
        limits: dict[str, str] = {}
        answer: Reply
        try:
            who = authenticate(call.headers, call.peer, call.request_id)
            limits.update(admit_request(who).headers)
            require_scope(who, self.scope)
            answer = self.door(call, who)
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


Route = KeyRoute | OpenRoute


class Doors:
    """An ASGI application for the paths that its routes begin with: `/v1/agent` claims all of `/v1`, and
    the gateway's paths claim what lies beneath them."""

    def __init__(self, routes: Sequence[Route], *, body_seconds: float = BODY_SECONDS) -> None:
        self.body_seconds = body_seconds
        self.routes = [(route, tuple(route.path.split("/")[1:])) for route in routes]
        self.roots = {path[0] for route, path in self.routes if not is_gateway_path(route.path)}

    def serves(self, path: str) -> bool:
        return is_gateway_path(path) or (path.startswith("/") and path[1:].partition("/")[0] in self.roots)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers = _headers(scope["headers"])
        request_id = accept_request_id(headers.get("x-request-id"))
        reply: Reply
        try:
            reply = await self._reply(scope, headers, request_id, receive)
        except Disconnected:
            return
        except Exception as error:  # whatever it is, it becomes an answer
            reply = answer_of(problem_of(error, request_id), scope["path"])
        cors = cors_headers(
            headers.get("origin"), settings.CORS_ORIGINS, preflight=_is_preflight(scope, headers)
        )
        exchange = _Exchange(receive, send, {**cors, "X-Request-Id": request_id}, request_id, scope["path"])
        if isinstance(reply, Stream):
            await exchange.stream(reply)
        elif isinstance(reply, Later):
            await exchange.wait(reply)
        else:
            await exchange.send_whole(reply, with_body=scope["method"] != "HEAD")

    async def _reply(
        self, scope: Mapping[str, Any], headers: Mapping[str, str], request_id: str, receive: Receive
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
            parts=_parts(route.path, scope["path"]),
            query=_query(scope["query_string"]),
            headers=headers,
            body=b"",
            peer=scope["client"][0] if scope.get("client") else None,
            request_id=request_id,
        )
        if route.method == "POST":
            if announced_size(headers) > LARGE:
                await route.look_first(call)
            call = replace(call, body=await read_body(headers, receive, self.body_seconds))
        return await route.reply(call)

    def _find(self, path: str) -> dict[str, Route]:
        """The routes at `path`, by method. Raises NotFound."""
        asked = tuple(path.split("/")[1:])
        found = {route.method: route for route, pattern in self.routes if _fits(pattern, asked)}
        if not found:
            raise nothing_here()
        return found


def answer_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """`value` with a space after colon and comma: the seed's shell loop greps for it (SPEC 10.13)."""
    return Answer(json.dumps(value, ensure_ascii=False).encode(), status, headers or {})


def answer_of(problem: Problem, path: str) -> Answer:
    """As clients of this path read errors."""
    return Answer(encoded(problem, path), problem.status, problem.headers)


def _fits(pattern: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """`{name}` stands for one part of a path, `{name:path}` at its end for all the rest."""
    if pattern[-1].endswith(REST) and len(asked) > len(pattern):
        asked = _folded(pattern, asked)
    return len(pattern) == len(asked) and all(
        part == word or (part.startswith("{") and word != "")
        for part, word in zip(pattern, asked, strict=True)
    )


def _folded(pattern: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    last = len(pattern) - 1
    return (*asked[:last], "/".join(asked[last:]))


def _parts(path: str, asked: str) -> dict[str, str]:
    pattern = path.split("/")
    pairs = zip(pattern, _folded(pattern, asked.split("/")), strict=True)
    return {part[1:-1].removesuffix(":path"): word for part, word in pairs if part.startswith("{")}


def _allowed(found: Mapping[str, Route]) -> str:
    also = {"OPTIONS", "HEAD"} if "GET" in found else {"OPTIONS"}
    return ", ".join(sorted({*found, *also}))


def _is_preflight(scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """By lower-case name; what is sent twice is joined, as HTTP has it."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), _header_text(value)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _header_text(value: bytes) -> str:
    """UTF-8 where it is (an idempotency key may hold any letters), else as HTTP had it once."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _query(raw: bytes) -> dict[str, str]:
    """The last value of each name. Raises BadRequest for hundreds of them."""
    try:
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise BadRequest("The query has too many parameters.") from None


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request's way back; `extra` are headers that every answer has."""

    receive: Receive
    send: Send
    extra: Mapping[str, str]
    request_id: str
    path: str

    async def send_whole(self, answer: Answer, *, with_body: bool = True) -> None:
        length = {"Content-Type": "application/json", "Content-Length": str(len(answer.body))}
        kind = length if answer.status != 204 else {}
        await self.send(self._start(answer.status, {**kind, "Cache-Control": "no-store", **answer.headers}))
        await self.send({"type": "http.response.body", "body": answer.body if with_body else b""})

    async def wait(self, later: Later) -> None:
        try:
            async with while_present(self.receive):
                answer = await later.make()
        except ClientLeft:
            return
        except asyncio.CancelledError:
            await self.send_whole(answer_of(stopping(), self.path))
            raise
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, self.request_id), self.path)
        await self.send_whole(replace(answer, headers={**later.headers, **answer.headers}))

    async def stream(self, stream: Stream) -> None:
        wire = Wire(self.send, self._start(200, {**STREAM_HEADERS, **stream.headers}))
        try:
            async with while_present(self.receive, wire.breathe), aclosing(stream.pieces()) as pieces:
                async for piece in pieces:
                    await wire.write(piece)
        except ClientLeft:
            return
        except asyncio.CancelledError:
            await self._fail(wire, stream, stopping())
            raise
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
