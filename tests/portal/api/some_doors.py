"""A few doors with nothing behind them, for what all lean doors have in common."""

from __future__ import annotations

from django.db import OperationalError

from portal.api.lean import Doors
from portal.api.replies import Answer, answer_json
from portal.api.routes import Call, KeyRoute, OpenRoute
from portal.services.principal import Principal
from portal.wire.errors import Conflict
from tests.api_client import Client


async def echo(call: Call) -> Answer:
    return answer_json(
        {
            "method": call.method,
            "parts": dict(call.parts),
            "query": dict(call.query),
            "key": call.headers.get("idempotency-key"),
            "size": len(call.body),
            "peer": call.peer,
            "request": call.request_id,
        }
    )


async def read(call: Call) -> Answer:
    return answer_json(call.json())


async def refuse(call: Call) -> Answer:
    raise Conflict("No.", param="x", code="c", headers={"Retry-After": "3"})


async def break_down(call: Call) -> Answer:
    raise RuntimeError("secret detail")


async def lose_database(call: Call) -> Answer:
    raise OperationalError("host db.internal is down")


def enter(call: Call, who: Principal) -> Answer:
    return answer_json({"size": len(call.body)})


ROUTES = (
    OpenRoute("GET", "/v1/things", echo),
    OpenRoute("POST", "/v1/things", echo),
    OpenRoute("GET", "/v1/things/{id}", echo),
    OpenRoute("POST", "/v1/things/{id}/stop", echo),
    OpenRoute("POST", "/v1/read", read),
    OpenRoute("GET", "/v1/refuse", refuse),
    OpenRoute("GET", "/v1/break", break_down),
    OpenRoute("GET", "/v1/database", lose_database),
    OpenRoute("GET", "/health", echo),
    KeyRoute("POST", "/v1/locked", "research", enter),
    KeyRoute("POST", "/chat/completions", "chat", enter),
)
DOORS = Doors(ROUTES)
client = Client(DOORS)
