"""The lean doors: hot API routes served straight from ASGI (SPEC 10.15, docs/decisions/0010).

A request is read on the event loop, answered whole in one thread of the database pool, and
written on the event loop again. No middleware, no DRF dispatch, no thread made per request. They
share the rest of the house's plumbing: its authentication, its error shapes, its limits. Where the
answer takes its time, the thread only lets the caller in, and the event loop makes the answer
(`portal.api.streaming`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from django.conf import settings

from portal.api.cors import cors_headers
from portal.api.exchange import Exchange
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
from portal.api.replies import Answer, Reply, answer_of
from portal.api.routes import Call, KeyRoute, OpenRoute, Route, SwiftRoute, UploadRoute
from portal.api.streaming import Presence, Receive, Send
from portal.wire.errors import MethodNotAllowed
from portal.wire.gateway import is_gateway_path
from portal.wire.ids import accept_request_id

LARGE = 65_536
"""Bytes of a body for which its sender has to show a key first."""
LARGE_AT_ONCE = 4
"""Bodies above `LARGEST_BODY` that a process has in memory: one of 28 MiB is there three times while it
is parsed. The others wait on their senders' side."""


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
        exchange = Exchange(presence, send, {**cors, "X-Request-Id": request_id}, request_id, scope["path"])
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
        call = partial(
            Call,
            method=scope["method"],
            path=scope["path"],
            parts=parts_of(route.path, scope["path"]),
            query=query_of(scope["query_string"]),
            headers=headers,
            peer=scope["client"][0] if scope.get("client") else None,
            request_id=request_id,
            presence=presence,
        )
        receive = presence.receive
        if isinstance(route, UploadRoute):
            body = body_pieces(headers, receive, self.body_seconds, route.largest)
            return await route.reply(call(body=b""), body)
        if route.method != "POST":
            return await route.reply(call(body=b""))
        size, largest, room = announced_size(headers), _largest(route), None
        if size > LARGE or self.room.is_short:
            await route.look_first(call(body=b""))
        else:
            room = self.room
        async with self.large if min(size, largest) > LARGEST_BODY else nullcontext():
            whole = await read_body(headers, receive, self.body_seconds, largest, room)
            return await route.reply(call(body=whole))

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


def _allowed(found: Mapping[str, Route]) -> str:
    also = {"OPTIONS", "HEAD"} if "GET" in found else {"OPTIONS"}
    return ", ".join(sorted({*found, *also}))


def _is_preflight(scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers
