"""`/health`, `/health/live`, `/health/ready`: for people, supervisors and load balancers (SPEC 10.21).

No key, no secret, no host check: probes come by address. `/health/live` touches nothing, so that
a slow disk never has the process killed; `/health/ready` looks at all that a request needs.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from portal.api.auth import authenticate
from portal.api.replies import Answer, answer_json
from portal.api.routes import Call, OpenRoute
from portal.api.threads import run_in_database
from portal.models.keys import Scope
from portal.models.system import Heartbeat
from portal.services import tables, upstreams
from portal.wire.errors import Problem
from portal.wire.version import VERSION

log = logging.getLogger(__name__)

SWEEPER_SILENCE = timedelta(seconds=10)
BROKER_PATIENCE = 1.0
LEAST_DISK = 256 * 2**20
"""Bytes free under DATA_DIR."""
LOOK_EVERY = 1.0
"""Seconds a look stays true: strangers may ask as often as they like."""


class Unready(Exception):
    """One check failed. The text is shown to everybody."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What an app above has to say: `is_well` is for everybody, `details` for administrators' keys."""

    is_well: Callable[[], bool]
    details: Callable[[], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Health:
    """`degraded` as soon as a feature is not well. The portal answers all the same: the status is 200."""

    features: tuple[Feature, ...]

    async def answer(self, call: Call) -> Answer:
        return answer_json(await run_in_database(partial(self._look, call)))

    def _look(self, call: Call) -> dict[str, object]:
        try:
            is_well = all(feature.is_well() for feature in self.features)
            details = [feature.details() for feature in self.features] if _is_admin(call) else []
        except DatabaseError:
            is_well, details = False, []
        status: dict[str, object] = {
            "status": "ok" if is_well else "degraded",
            "version": VERSION,
            "mode": settings.SONDE_MODE,
            "upstream": _upstream(),
        }
        for detail in details:
            status |= detail
        return status


def _is_admin(call: Call) -> bool:
    """Whoever brings no key, or another one, is told what everybody is told."""
    try:
        return Scope.ADMIN.value in authenticate(call.headers, call.peer, call.request_id).scopes
    except Problem:
        return False


async def live(call: Call) -> Answer:
    return answer_json({"status": "ok"})


class Readiness:
    """The last look at everything, shared by all who ask within a second."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._looked_at = float("-inf")
        self._checks: dict[str, str] = {}

    async def answer(self, call: Call) -> Answer:
        async with self._lock:
            if time.monotonic() - self._looked_at > LOOK_EVERY:
                self._checks = await run_in_database(look)
                self._looked_at = time.monotonic()
        is_ready = all(result == "ok" for result in self._checks.values())
        status = {"status": "ready" if is_ready else "unready", "checks": self._checks}
        return answer_json(status, status=200 if is_ready else 503)


def look() -> dict[str, str]:
    """Each check by name: "ok", or what is wrong."""
    return {name: _outcome(name, check) for name, check in CHECKS.items()}


def _outcome(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except Unready as problem:
        return str(problem)
    except Exception as error:  # a probe must answer whatever happens; the details are for the log
        log.warning("readiness: %s failed: %s", name, type(error).__name__)
        return "failed"
    return "ok"


def _upstream() -> str:
    """`sandbox`, `live`, `none`; `unknown` while the database cannot tell."""
    try:
        if upstreams.uses_sandbox():
            return "sandbox"
        return "live" if upstreams.is_configured() else "none"
    except DatabaseError:
        return "unknown"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _migrations() -> None:
    if not tables.are_current():
        raise Unready("migrations are pending")


def _broker() -> None:
    """In embedded mode it is a part of this process."""
    if not settings.REDIS_URL:
        return
    # Loaded where there is a Redis: its client takes a twentieth of a start in embedded mode.
    from redis import Redis, RedisError  # noqa: PLC0415

    patience = {"socket_timeout": BROKER_PATIENCE, "socket_connect_timeout": BROKER_PATIENCE}
    try:
        with Redis.from_url(settings.REDIS_URL, **patience) as redis:
            redis.ping()
    except RedisError:
        raise Unready("the broker does not answer") from None


def _sweeper() -> None:
    beat = Heartbeat.objects.filter(name="sweeper").first()
    if beat is None or timezone.now() - beat.at > SWEEPER_SILENCE:
        raise Unready("the sweeper is silent: is a worker running, and a beat?")


def _disk() -> None:
    if shutil.disk_usage(settings.DATA_DIR).free < LEAST_DISK:
        raise Unready("the disk is nearly full")


CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "migrations": _migrations,
    "broker": _broker,
    "sweeper": _sweeper,
    "disk": _disk,
}


def routes(*features: Feature) -> tuple[OpenRoute, ...]:
    return (
        OpenRoute("GET", "/health", Health(features).answer),
        OpenRoute("GET", "/health/live", live),
        OpenRoute("GET", "/health/ready", Readiness().answer),
    )
