"""The lean doors: hot API routes served straight from ASGI (SPEC 10.15, docs/decisions/0010).

A request is read on the event loop, answered whole in one thread of the database pool, and
written on the event loop again. No middleware, no DRF dispatch, no thread made per request. They
share the rest of the house's plumbing: its authentication, its error shapes, its limits.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings

from portal.api.auth import authenticate, require_scope
from portal.api.bodies import check_content_type, read_json
from portal.api.cors import cors_headers
from portal.api.handler import nothing_here, problem_of
from portal.api.threads import run_in_database
from portal.services.limits import admit_request
from portal.services.principal import Principal
from portal.wire.errors import BadRequest, MethodNotAllowed, Problem, TooLarge
from portal.wire.ids import accept_request_id

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_BODY = 1_048_576
"""Bytes of a request body."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read. `headers` are by lower-case name, `parts` what the path's braces name."""

    method: str
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
class KeyRoute:
    """A door that a key with `scope` opens. `door` runs in a database thread."""

    method: str
    path: str
    scope: str
    door: Callable[[Call, Principal], Answer]

    async def reply(self, call: Call) -> Answer:
        return await run_in_database(partial(self._serve, call))

    def _serve(self, call: Call) -> Answer:
        limits: dict[str, str] = {}
        try:
            who = authenticate(call.headers, call.peer, call.request_id)
            limits.update(admit_request(who).headers)
            require_scope(who, self.scope)
            answer = self.door(call, who)
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, call.request_id))
        return replace(answer, headers={**limits, **answer.headers})


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """A door without a lock. `door` runs on the event loop and must not block it."""

    method: str
    path: str
    door: Callable[[Call], Awaitable[Answer]]

    async def reply(self, call: Call) -> Answer:
        return await self.door(call)


Route = KeyRoute | OpenRoute


class Doors:
    """An ASGI application for the paths that its routes begin with: `/v1/agent` claims all of `/v1`."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = [(route, tuple(route.path.split("/")[1:])) for route in routes]
        self.roots = {path[0] for _, path in self.routes}

    def serves(self, path: str) -> bool:
        return path.startswith("/") and path[1:].partition("/")[0] in self.roots

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers = _headers(scope["headers"])
        request_id = accept_request_id(headers.get("x-request-id"))
        try:
            answer = await self._answer(scope, headers, request_id, receive)
        except Disconnected:
            return
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, request_id))
        cors = cors_headers(
            headers.get("origin"), settings.CORS_ORIGINS, preflight=_is_preflight(scope, headers)
        )
        await _send(answer, {**cors, "X-Request-Id": request_id}, send, with_body=scope["method"] != "HEAD")

    async def _answer(
        self, scope: Mapping[str, Any], headers: Mapping[str, str], request_id: str, receive: Receive
    ) -> Answer:
        found = self._find(scope["path"])
        methods = _allowed(found)
        if scope["method"] == "OPTIONS":
            return Answer(b"", 204, {"Allow": methods})
        route = found.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if route is None:
            raise MethodNotAllowed(f"Use one of these methods here: {methods}.", headers={"Allow": methods})
        call = Call(
            method=scope["method"],
            parts=_parts(route.path, scope["path"]),
            query=_query(scope["query_string"]),
            headers=headers,
            body=await read_body(headers, receive) if route.method == "POST" else b"",
            peer=scope["client"][0] if scope.get("client") else None,
            request_id=request_id,
        )
        return await route.reply(call)

    def _find(self, path: str) -> dict[str, Route]:
        """The routes at `path`, by method. Raises NotFound."""
        asked = tuple(path.split("/")[1:])
        found = {route.method: route for route, pattern in self.routes if _fits(pattern, asked)}
        if not found:
            raise nothing_here()
        return found


class Disconnected(Exception):
    """The client left before its request was whole: there is nobody to answer."""


async def read_body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """The whole body. Raises TooLarge as soon as its size is known, and Disconnected."""
    announced = headers.get("content-length", "")
    if announced.isdigit() and (len(announced) > 9 or int(announced) > LARGEST_BODY):
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            raise _too_large()
        if not message.get("more_body"):
            return bytes(body)


def answer_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """`value` with a space after colon and comma: the seed's shell loop greps for it (SPEC 10.13)."""
    return Answer(json.dumps(value, ensure_ascii=False).encode(), status, headers or {})


def answer_of(problem: Problem) -> Answer:
    return Answer(problem.encoded(), problem.status, problem.headers)


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {LARGEST_BODY:,} bytes.", code="payload_too_large")


def _fits(pattern: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return len(pattern) == len(asked) and all(
        part == word or (part.startswith("{") and word != "")
        for part, word in zip(pattern, asked, strict=True)
    )


def _parts(path: str, asked: str) -> dict[str, str]:
    pairs = zip(path.split("/"), asked.split("/"), strict=True)
    return {part[1:-1]: word for part, word in pairs if part.startswith("{")}


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


async def _send(answer: Answer, extra: Mapping[str, str], send: Send, *, with_body: bool) -> None:
    length = {"Content-Type": "application/json", "Content-Length": str(len(answer.body))}
    headers = {
        **(length if answer.status != 204 else {}),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **answer.headers,
        **extra,
    }
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})
