"""GET /api/auth/session (perplexity-web §3) and the page that some clients open before they ask."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from sandbox.web.accounts import Caller, user_id
from sandbox.web.visits import Visit, WebBackend
from sandbox.wire import reply

_LIFE = timedelta(days=30)


def _user(caller: Caller) -> dict[str, Any]:
    name = caller.account.removeprefix("sandbox-")
    paid = caller.tier != "free"
    return {
        "id": user_id(caller.account),
        "email": f"{name}@sandbox.example",
        "name": f"Sandbox {name}",
        "username": name,
        "image": "https://example.org/sandbox.png",
        "subscription_status": "active" if paid else "none",
        "subscription_tier": caller.tier,
        "subscription_source": "stripe" if paid else "none",
        "payment_tier": caller.tier,
    }


class SessionDoor:
    """Says who is logged in; whoever is not, or no longer, gets `{}` with 200."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    async def session(self, visit: Visit) -> Response:
        caller = visit.caller
        if not caller.signed_in or caller.unprefixed:
            return reply(200, {})
        until = datetime.fromtimestamp(self._backend.world.clock(), UTC) + _LIFE
        expires = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        response = reply(200, {"user": _user(caller), "expires": expires, "preventUsernameRedirect": True})
        for line in self._backend.rotated(visit):
            response.headers.append("set-cookie", line)
        response.headers.append("set-cookie", f"__cf_bm={uuid.uuid4().hex}; Path=/; Secure; HttpOnly")
        response.headers.append("set-cookie", f"pplx.session-id={uuid.uuid4()}; Path=/; SameSite=Lax")
        return response

    async def page(self, _: Visit) -> Response:
        return Response("<!doctype html><title>The sandbox</title>", media_type="text/html")
