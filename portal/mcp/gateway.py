"""The door of MCP over HTTP: which paths, whose key, which hosts, and what every answer carries.

    POST /mcp  /<key>/mcp                      Streamable HTTP
    GET  /sse  /<key>/sse                      the legacy event stream
    POST /messages/?session_id=…  /<key>/…     and its messages

A key stands in a path only when it has the scope `mcp:url`. Everything of the SDK is behind this door
and is brought in by the first request that may enter: it takes thirty megabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from portal.api.auth import authenticate, client_address
from portal.api.bodies import check_content_type
from portal.api.cors import cors_headers
from portal.api.handler import problem_of
from portal.api.intake import BODY_SECONDS, Disconnected, read_body
from portal.api.reading import headers_of, query_of
from portal.api.streaming import STREAM_HEADERS, Message, Receive, Send, Wire
from portal.api.threads import run_in_database
from portal.mcp.messages import NotAMessage, encoded, error, named, read_message
from portal.mcp.toolbox import OPENS, VISIT, Visit
from portal.models.keys import Scope
from portal.services.keys import authenticate_key
from portal.services.limits import admit_request
from portal.services.principal import Principal
from portal.wire.errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    Problem,
    RateLimited,
    unauthenticated,
)
from portal.wire.ids import accept_request_id
from portal.wire.tools import refused_by

if TYPE_CHECKING:
    from portal.mcp.http import Transports

Kind = Literal["mcp", "sse", "messages"]
KINDS: Mapping[str, Kind] = {"mcp": "mcp", "sse": "sse", "messages": "messages"}
METHODS: Mapping[Kind, str] = {"mcp": "POST", "sse": "GET", "messages": "POST"}
ALWAYS = {
    "Cache-Control": "no-store, no-transform",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
MORE_SHOWN = "mcp-session-id, www-authenticate"
MASK = "***"


class WrongHost(Problem):
    status = 421
    type = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class Address:
    kind: Kind
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """A caller who may come in, and the headers that tell of their limits."""

    visit: Visit
    headers: Mapping[str, str]
    limited: RateLimited | None = None


def address_of(path: str) -> Address | None:
    """What a path of ours names; None for any other."""
    words = path.removeprefix("/").split("/")
    if words[-1] == "" and len(words) > 1 and words[-2] == "messages":
        words.pop()
    kind = KINDS.get(words[-1])
    if kind is None or len(words) > 2 or "" in words:
        return None
    return Address(kind, words[0] if len(words) == 2 else None)


class Gateway:
    """An ASGI application for the paths of MCP."""

    def __init__(self, *, body_seconds: float = BODY_SECONDS) -> None:
        self.body_seconds = body_seconds
        self._transports: Transports | None = None
        self._making = asyncio.Lock()

    def serves(self, path: str) -> bool:
        return address_of(path) is not None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        address = address_of(scope["path"])
        assert address is not None
        if address.key is not None:
            _mask(scope, address)
        headers = headers_of(scope["headers"])
        request_id = accept_request_id(headers.get("x-request-id"))
        way_back = WayBack(send, {**ALWAYS, **_cors(scope, headers), "X-Request-Id": request_id})
        try:
            await self._answer(address, scope, headers, request_id, receive, way_back)
        except Disconnected:
            return
        except NotAMessage as wrong:
            await way_back.whole(400, encoded(error(None, wrong.code, str(wrong))))
        except Exception as failure:  # whatever it is, it becomes an answer
            if not way_back.begun:
                problem = problem_of(failure, request_id)
                await way_back.whole(problem.status, problem.encoded(), problem.headers)

    async def close(self) -> None:
        if self._transports is not None:
            await self._transports.stop()

    async def _answer(
        self,
        address: Address,
        scope: MutableMapping[str, Any],
        headers: Mapping[str, str],
        request_id: str,
        receive: Receive,
        way_back: WayBack,
    ) -> None:
        if scope["method"] == "OPTIONS":
            return await way_back.empty(204, {"Allow": f"OPTIONS, {METHODS[address.kind]}"})
        check_host_and_origin(headers)
        peer = scope["client"][0] if scope.get("client") else None
        counts = scope["method"] == METHODS[address.kind]
        entered = await run_in_database(
            partial(_enter, address.key, headers, peer, request_id, counts=counts)
        )
        way_back.extra.update(entered.headers)
        if not counts:
            allowed = METHODS[address.kind]
            raise MethodNotAllowed(f"Use {allowed} here.", headers={"Allow": allowed})
        if address.kind == "sse":
            return await self._stream(entered, receive, way_back)
        check_content_type(headers.get("content-type", ""), headers.get("content-encoding", ""))
        body = await read_body(headers, receive, self.body_seconds)
        if address.kind == "messages":
            return await self._post(entered, scope, body, way_back)
        return await self._call(entered, scope, body, receive, way_back)

    async def _call(
        self,
        entered: Entered,
        scope: MutableMapping[str, Any],
        body: bytes,
        receive: Receive,
        way_back: WayBack,
    ) -> None:
        message = read_message(body)
        if entered.limited is not None and message.get("method") != "tools/call":
            raise entered.limited
        transports = await self._bring()
        inner = {**scope, "headers": trimmed(scope["headers"]), VISIT: entered.visit}
        await transports.handle(inner, replayed(encoded(named(message)), receive), way_back.send)

    async def _post(
        self, entered: Entered, scope: MutableMapping[str, Any], body: bytes, way_back: WayBack
    ) -> None:
        session = query_of(scope["query_string"]).get("session_id", "")
        if not session:
            raise BadRequest("session_id is missing: post to the address that the stream named.")
        message = read_message(body)
        if entered.limited is not None and message.get("method") != "tools/call":
            raise entered.limited
        transports = await self._bring()
        await transports.streams.post(entered.visit, session, encoded(named(message)))
        await way_back.empty(202)

    async def _stream(self, entered: Entered, receive: Receive, way_back: WayBack) -> None:
        if entered.limited is not None:
            raise entered.limited
        transports = await self._bring()
        wire = Wire(way_back.send, way_back.start(200, STREAM_HEADERS))
        await transports.streams.serve(entered.visit, receive, wire)

    async def _bring(self) -> Transports:
        """The SDK takes its time to import: not on the event loop. What has ended is made anew."""
        async with self._making:
            if self._transports is None or self._transports.is_over():
                transports = await asyncio.to_thread(_import_transports)
                made = transports()
                await made.start()
                self._transports = made
        return self._transports


class WayBack:
    """What goes to the client, with the headers that every answer has."""

    def __init__(self, send: Send, extra: dict[str, str]) -> None:
        self._send = send
        self.extra = extra
        self.begun = False

    async def send(self, message: Message) -> None:
        """`send` of the ASGI application behind the door."""
        if message["type"] == "http.response.start":
            self.begun = True
            ours = {name.lower().encode(): value.encode("latin-1") for name, value in self.extra.items()}
            theirs = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in ours]
            message = {**message, "headers": [*theirs, *ours.items()]}
        await self._send(message)

    def start(self, status: int, headers: Mapping[str, str]) -> Message:
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        return {"type": "http.response.start", "status": status, "headers": raw}

    async def empty(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        await self.send(self.start(status, {"Content-Length": "0", **(headers or {})}))
        await self.send({"type": "http.response.body", "body": b""})

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.send(self.start(status, head))
        await self.send({"type": "http.response.body", "body": body})


def check_host_and_origin(headers: Mapping[str, str]) -> None:
    """What no browser that was led astray may pass (DNS rebinding). Raises WrongHost and Forbidden.

    An origin is let in when it is configured, or when it is this very host.
    """
    host = headers.get("host", "")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise WrongHost("This host is not served here.")
    origin = headers.get("origin")
    if origin is None or "*" in settings.CORS_ORIGINS or origin in settings.CORS_ORIGINS:
        return
    if origin != settings.PUBLIC_URL and urlsplit(origin).netloc.lower() != host.lower():
        raise Forbidden("Pages of this origin may not call here.")


def trimmed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Space around a value is none of it (RFC 9110 §5.5): the server's parser leaves what follows it, and
    `Mcp-Name` has to equal the body's."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` for an application behind somebody who has read the body."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def _enter(
    key: str | None, headers: Mapping[str, str], peer: str | None, request_id: str, *, counts: bool
) -> Entered:
    """Raises Unauthenticated and Forbidden."""
    who = _by_path(key, headers, peer, request_id) if key else authenticate(headers, peer, request_id)
    if who.scopes.isdisjoint(OPENS):
        raise Forbidden("This key lacks the scope 'mcp'.")
    if not counts:
        return Entered(Visit(who), {})
    try:
        return Entered(Visit(who), admit_request(who).headers)
    except RateLimited as limited:
        return Entered(Visit(who, refused_by(limited)), limited.headers, limited)


def _by_path(key: str, headers: Mapping[str, str], peer: str | None, request_id: str) -> Principal:
    """A key that was not made to stand in an address opens nothing there."""
    who = authenticate_key(key, client_address(headers, peer), request_id)
    if who is None or Scope.MCP_URL.value not in who.scopes:
        raise unauthenticated()
    return who


def _mask(scope: MutableMapping[str, Any], address: Address) -> None:
    """The server's own record of the request, which access logs are written from."""
    scope["path"] = f"/{MASK}/{address.kind}"
    scope["raw_path"] = scope["path"].encode()


def _cors(scope: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, str]:
    preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
    granted = cors_headers(headers.get("origin"), settings.CORS_ORIGINS, preflight=preflight)
    if shown := granted.get("Access-Control-Expose-Headers"):
        granted["Access-Control-Expose-Headers"] = f"{shown}, {MORE_SHOWN}"
    return granted


def _import_transports() -> type[Transports]:
    from portal.mcp.http import Transports  # noqa: PLC0415  # see above

    return Transports
