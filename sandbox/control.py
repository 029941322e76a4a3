"""The control door, /_sandbox: counters and settings for tests and operators, open to this machine alone."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sandbox.attached import attached_in
from sandbox.bodies import read_json
from sandbox.faults import FAULTS
from sandbox.markers import ALL
from sandbox.runs import look
from sandbox.scenarios import MARKERS
from sandbox.web.faults import WEB_FAULTS
from sandbox.wire import refusal, reply
from sandbox.world import CALLS, MODES, QueuedFault, Refused, World, faults_of

_PAGE = 1000


Opened = Callable[[Request], Awaitable[Response]]


def _check_local(request: Request) -> None:
    """A browser on this machine can be led here by a public name that was made to mean loopback."""
    peer, asked = request.client.host if request.client else "", request.url.hostname or ""
    if not _is_loopback(peer) or ("." in asked and not _is_loopback(asked)):
        raise Refused(refusal(403, "forbidden", "the control door opens only on the machine itself"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_json(request: Request) -> None:
    # A page in somebody's browser can post a form to a loopback address, but not JSON.
    if request.method == "POST" and request.headers.get("content-type") != "application/json":
        raise Refused(refusal(415, "invalid_request", "send application/json"))


def _local(handler: Opened) -> Opened:
    async def endpoint(request: Request) -> Response:
        try:
            _check_local(request)
            _check_json(request)
            return await handler(request)
        except Refused as refused:
            return refused.response

    return endpoint


def bad(message: str) -> Refused:
    return Refused(refusal(400, "invalid_request", message))


def _queued(given: Any) -> QueuedFault:
    if not isinstance(given, dict) or not {"fault"} <= set(given) <= {"fault", "phase", "api", "times"}:
        raise bad("fail_next takes fault, and may take phase, api and times")
    fault, phase, api = (str(given.get(name, "any")) for name in ("fault", "phase", "api"))
    times = given.get("times", 1)
    if fault not in FAULTS and fault not in WEB_FAULTS:
        raise bad(f"unknown fault {fault!r}")
    if phase not in ("any", *CALLS):
        raise bad(f"unknown phase {phase!r}")
    if api not in ("any", *ALL) or type(times) is not int or times < 1:
        raise bad("api is any, agent, sonar or web, and times at least 1")
    if api in ALL and fault not in faults_of(api):
        raise bad(f"{api} knows no fault {fault!r}")
    return QueuedFault(fault, phase, api, times)


def _check_settings(chosen: dict[str, Any]) -> None:
    if chosen["mode"] not in MODES:
        raise bad(f"mode is one of {', '.join(MODES)}")
    for name in ("seconds", "chat_seconds"):
        value = chosen[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86400:
            raise bad(f"{name} is a number from 0 to 86400")
    if not isinstance(chosen["web_version"], str):
        raise bad("web_version is a text")


class ControlDoor:
    """What happened so far, and what shall happen next."""

    def __init__(
        self, world: World, more: Sequence[tuple[str, Opened, str]], forget: Callable[[], None]
    ) -> None:
        """`more` are further routes; `forget` is called at a reset."""
        self._world, self._more, self._forget = world, more, forget
        self._first_settings = (world.mode, world.seconds, world.chat_seconds)

    def routes(self) -> list[Route]:
        table: tuple[tuple[str, Opened, str], ...] = (
            ("/_sandbox", self._settings, "GET"),
            ("/_sandbox/counts", self._counts, "GET"),
            ("/_sandbox/jobs", self._jobs, "GET"),
            ("/_sandbox/markers", self._markers, "GET"),
            ("/_sandbox/settings", self._set, "POST"),
            ("/_sandbox/reset", self._reset, "POST"),
            *self._more,
        )
        return [Route(path, _local(handler), methods=[method]) for path, handler, method in table]

    async def _settings(self, _: Request) -> Response:
        world = self._world
        queued = [asdict(fault) for fault in world.queued]
        return reply(200, {"pid": os.getpid(), **world.settings(), "fail_next": queued})

    async def _counts(self, _: Request) -> Response:
        names = ("api", "idempotency_key", "question", "received", "accepted")
        rows = [dict(zip(names, row, strict=True)) for row in self._world.store.submissions()]
        return reply(
            200,
            {"totals": self._world.store.totals(), "calls": self._world.store.tallies(), "submissions": rows},
        )

    async def _jobs(self, request: Request) -> Response:
        """All jobs, newest first, a thousand a page; `before` takes the last `seq` seen."""
        before = request.query_params.get("before", "")
        now = self._world.clock()
        rows = []
        for job in self._world.store.jobs(_PAGE, int(before) if before.isdigit() else None):
            row = asdict(job)
            attached = [*attached_in(json.loads(row.pop("body")))]
            del row["fingerprint"]
            rows.append({**row, "attached": attached, "state": look(job, now).state})
        return reply(200, {"jobs": rows})

    async def _markers(self, _: Request) -> Response:
        return reply(200, {name: marker.meaning for name, marker in MARKERS.items()})

    async def _set(self, request: Request) -> Response:
        """Takes any setting, and `fail_next` (one fault, a list of them, or [] to clear)."""
        world = self._world
        given = await read_json(request)
        if not isinstance(given, dict) or set(given) - {*world.settings(), "fail_next"}:
            raise bad(f"settings are {', '.join(world.settings())} and fail_next")
        faults = given.pop("fail_next", None)
        chosen = {**world.settings(), **given}
        _check_settings(chosen)
        added = [
            _queued(fault) for fault in (faults if isinstance(faults, list) else [faults] if faults else [])
        ]
        world.change(chosen)
        world.queued = [] if faults == [] else [*world.queued, *added]
        world.save()
        return await self._settings(request)

    async def _reset(self, request: Request) -> Response:
        """Forgets jobs and counters, and goes back to the settings of the start."""
        self._world.store.clear()
        self._forget()
        self._world.load(*self._first_settings)
        return await self._settings(request)
