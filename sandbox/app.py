"""The simulated upstreams as one ASGI application."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.agent import AgentDoor
from sandbox.catalog import CatalogDoor
from sandbox.control import ControlDoor
from sandbox.keys import account_of
from sandbox.sonar import SonarDoor
from sandbox.store import Store
from sandbox.web.asking import AskDoor
from sandbox.web.control import WebControl
from sandbox.web.limits import LimitsDoor
from sandbox.web.messages import MessageDoor
from sandbox.web.sessions import SessionDoor
from sandbox.web.solver import SolverDoor
from sandbox.web.uploads import StorageDoor, UploadDoor
from sandbox.web.visits import Handler as WebHandler
from sandbox.web.visits import WebBackend
from sandbox.wire import refusal
from sandbox.world import Call, Mode, Refused, World

KEEP_SECONDS = 75
"""For whoever serves it: how long an idle connection stays. The real edge keeps it for longer than its
clients do; a server that closes first breaks what they are just sending."""
Handler = Callable[[Request, str], Awaitable[Response]]
_LIMITS = {"POST": 50, "GET": 6000}


class Stamp:
    """Puts `x-request-id` and the rate headers on every answer of the APIs (perplexity-api §1); enforces no
    limit. The web's answers carry neither."""

    def __init__(self, app: ASGIApp, world: World) -> None:
        self._app = app
        self.world = world
        self._used: dict[tuple[str, str], tuple[int, int]] = {}

    def _headers(self, scope: Scope) -> dict[str, str]:
        if "sandbox.bare" in scope:
            return {}
        minute = int(self.world.clock()) // 60
        place = (scope.get("sandbox.account", ""), scope["method"])
        before, used = self._used.get(place, (minute, 0))
        used = used + 1 if before == minute else 1
        self._used[place] = (minute, used)
        limit = _LIMITS.get(scope["method"], 50)
        return {
            "x-request-id": scope.get("sandbox.request_id") or str(uuid.uuid4()),
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-remaining": str(max(0, limit - used)),
            "x-ratelimit-used": str(used),
            "x-ratelimit-reset": str((minute + 1) * 60),
        }

    def close(self) -> None:
        """Closes the calling thread's connection to the file; for whoever does not speak lifespan."""
        self.world.store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(raw=message["headers"]).update(self._headers(scope))
            await send(message)

        await self._app(scope, receive, stamped if scope["type"] == "http" else send)


def _guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            account = account_of(request)
            request.scope["sandbox.account"] = account
            return await handler(request, account)
        except Refused as refused:
            return refused.response

    return endpoint


def _route(path: str, handler: Handler, method: str) -> Route:
    return Route(path, _guarded(handler), methods=[method])


def _agent_routes(door: AgentDoor) -> list[Route]:
    found = []
    for base in ("/v1/agent", "/v1/responses"):
        found += [
            _route(base, door.create, "POST"),
            _route(base + "/{id}", door.retrieve, "GET"),
            _route(base + "/{id}/cancel", door.cancel, "POST"),
            _route(base + "/{id}/files", door.files, "GET"),
            _route(base + "/{id}/files/{file}/content", door.file, "GET"),
        ]
    return found


def _sonar_routes(door: SonarDoor) -> list[Route]:
    found = []
    for base in ("/v1/async/sonar", "/async/chat/completions"):
        found += [
            _route(base, door.create, "POST"),
            _route(base, door.list, "GET"),
            # A gateway that loses the id asks for the list (§3.5).
            _route(base + "/", door.list, "GET"),
            _route(base + "/{id}", door.retrieve, "GET"),
        ]
    for path in ("/chat/completions", "/v1/sonar", "/v1/chat/completions"):
        found.append(_route(path, door.complete, "POST"))
    return found


def _web_routes(backend: WebBackend) -> list[Route]:
    asking, session, limits = AskDoor(backend), SessionDoor(backend), LimitsDoor(backend)
    upload, storage = UploadDoor(backend), StorageDoor(backend)
    solver, message = SolverDoor(backend), MessageDoor(backend)
    ask = "/rest/sse/perplexity_ask"
    table: tuple[tuple[str, str, WebHandler, Call | None], ...] = (
        ("POST", ask, asking.ask, None),
        ("POST", ask + "/reconnect/{id}", asking.reconnect, None),
        ("POST", "/rest/sse/perplexity_terminate", asking.terminate, None),
        ("DELETE", "/rest/thread/delete_thread_by_entry_uuid", asking.delete, "delete"),
        ("GET", "/api/auth/session", session.session, "session"),
        ("GET", "/search/new", session.page, None),
        ("GET", "/rest/rate-limit/all", limits.all, "quota"),
        ("GET", "/rest/rate-limit/status", limits.status, "quota"),
        ("GET", "/rest/models/config", limits.models, "models"),
        ("POST", "/rest/uploads/create_upload_url", upload.create, "upload"),
        ("POST", "/rest/uploads/batch_create_upload_urls", upload.create_batch, "upload"),
        ("POST", "/rest/sse/attachment_processing/subscribe", upload.process, "process"),
        ("POST", "/_storage/s3/", storage.s3, "storage"),
        ("POST", "/_storage/v1_1/sandbox/image/upload", storage.cloudinary, "storage"),
        ("POST", "/v1", solver.solve, "solve"),
        ("GET", "/", solver.ready, None),
        ("GET", "/health", solver.health, None),
        ("POST", "/ntfy/{topic}", message.publish, "notify"),
        ("PUT", "/ntfy/{topic}", message.publish, "notify"),
        ("POST", "/ntfy", message.publish_json, "notify"),
        ("POST", "/ntfy/", message.publish_json, "notify"),
        ("POST", "/", message.publish_json, "notify"),
    )
    return [
        Route(path, backend.guarded(handler, call), methods=[method]) for method, path, handler, call in table
    ]


async def _unknown(_: Request, __: Exception) -> Response:
    return refusal(404, "not_found", "resource not found")


async def _wrong_method(_: Request, __: Exception) -> Response:
    return refusal(405, "invalid_request", "method not allowed")


def build_app(
    database: Path,
    *,
    mode: Mode | None = None,
    seconds: float | None = None,
    chat_seconds: float | None = None,
    edge_seconds: float = 300.0,
    clock: Callable[[], float] = time.time,
) -> Stamp:
    """A sandbox whose jobs, counters and settings live in the given SQLite file.

    `mode`, `seconds` (the usual length of a run) and `chat_seconds` (that of a web chat answer) win over what
    the file remembers; after `edge_seconds` the edge cuts a synchronous Agent request.
    """
    world = World(Store(database), clock=clock)
    world.load(mode, seconds, chat_seconds)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        world.store.close()

    catalog = CatalogDoor(world)
    backend = WebBackend(world)
    routes: Sequence[Any] = [
        *_web_routes(backend),
        *_agent_routes(AgentDoor(world, edge_seconds)),
        *_sonar_routes(SonarDoor(world)),
        _route("/v1/models", catalog.models, "GET"),
        _route("/search", catalog.search, "POST"),
        *ControlDoor(world, WebControl(backend).routes(), backend.live.forget_peaks).routes(),
    ]
    return Stamp(
        Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _unknown, 405: _wrong_method}),
        world,
    )
