"""The web's part of the control door: what it saw, what is open, and orders to single accounts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.bodies import read_json
from sandbox.control import Opened, bad
from sandbox.web.accounts import FLAGS, STANDINGS, TIERS
from sandbox.web.markers import FORGOTTEN
from sandbox.web.visits import WebBackend
from sandbox.wire import reply

_PAGE = 1000
_ORDERS = ("standing", "tier", "flags", "slots", "retired", "added", "substitutes", "forgotten")
_COUNTERS = ("remaining_pro", "remaining_research")


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= 10**9


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_CHECKS = {
    "standing": lambda value: value in STANDINGS,
    "tier": lambda value: value in TIERS,
    "flags": lambda value: _words(value) and set(value) <= set(FLAGS),
    "slots": lambda value: value is None or _whole(value),
    "retired": _words,
    "added": _words,
    "substitutes": lambda value: isinstance(value, dict) and _words(list(value.values())),
    "forgotten": lambda value: value in FORGOTTEN,
    "remaining_pro": _whole,
    "remaining_research": _whole,
}


def _before(request: Request) -> int | None:
    given = request.query_params.get("before", "")
    return int(given) if given.isascii() and given.isdigit() else None


class WebControl:
    """Under /_sandbox/web."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    def routes(self) -> tuple[tuple[str, Opened, str], ...]:
        return (
            ("/_sandbox/web", self._overview, "GET"),
            ("/_sandbox/web/requests", self._requests, "GET"),
            ("/_sandbox/web/entries", self._entries, "GET"),
            ("/_sandbox/web/uploads", self._uploads, "GET"),
            ("/_sandbox/web/messages", self._messages, "GET"),
            ("/_sandbox/web/account", self._order, "POST"),
        )

    async def _overview(self, _: Request) -> Response:
        """Accounts with their counters, and the streams that are open now, and were at most."""
        live = self._backend.live
        accounts = [
            {**asdict(account), "open": live.open[account.name], "peak": live.peak[account.name]}
            for account in self._backend.store.accounts()
        ]
        return reply(200, {"open": live.total, "peak": live.peak_total, "accounts": accounts})

    async def _requests(self, request: Request) -> Response:
        """Received requests, newest first, a thousand a page; `path` may end in `*`. One without `ended_at`
        is still being answered; `ending` is done, cut (by us) or left (by the client)."""
        path = request.query_params.get("path", "")
        return reply(200, {"requests": self._backend.store.requests(path, _PAGE, _before(request))})

    async def _entries(self, request: Request) -> Response:
        """Accepted asks, newest first, with the body as it was received."""
        entries = self._backend.store.entries(_PAGE, _before(request))
        rows = [{**asdict(entry), "body": json.loads(entry.body)} for entry in entries]
        return reply(200, {"entries": rows})

    async def _uploads(self, _: Request) -> Response:
        return reply(200, {"uploads": self._backend.store.uploads()})

    async def _messages(self, request: Request) -> Response:
        """What was published to the ntfy sink, in order; `topic` picks one topic."""
        return reply(200, {"messages": self._backend.store.messages(request.query_params.get("topic", ""))})

    async def _order(self, request: Request) -> Response:
        """Takes `account` and any orders; they add to earlier ones, and win over the account's name."""
        given: Any = await read_json(request)
        if not isinstance(given, dict) or set(given) - {"account", *_ORDERS, *_COUNTERS}:
            raise bad(f"an order names an account, and any of {', '.join((*_ORDERS, *_COUNTERS))}")
        name = given.pop("account", None)
        if not isinstance(name, str) or not name.startswith("sandbox-") or "." in name:
            raise bad("account is the name of an account, sandbox-…")
        for order, value in given.items():
            if not _CHECKS[order](value):
                raise bad(f"{order} makes no sense so")
        pro, research = (given.pop(counter, None) for counter in _COUNTERS)
        account = self._backend.account(name)
        self._backend.store.order(name, pro, research, {**account.orders, **given})
        return reply(200, asdict(self._backend.account(name)))
