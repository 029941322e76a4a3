"""What is left, and what there is: the rate-limit endpoints and the catalogue (perplexity-web §11, §13)."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from sandbox.web.accounts import Caller
from sandbox.web.ask_request import rejected
from sandbox.web.faults import challenge
from sandbox.web.preferences import catalogue
from sandbox.web.store import Account
from sandbox.web.visits import Visit, WebBackend
from sandbox.wire import reply
from sandbox.world import Refused

_UNTOLD = {"kind": "not_provided"}


def _left(caller: Caller, account: Account | None) -> tuple[int, int]:
    """(pro, research); nothing for whoever is not logged in (§11)."""
    if account is None or not caller.signed_in or caller.unprefixed:
        return 0, 0
    return account.pro, account.research


def counters(caller: Caller, account: Account | None) -> dict[str, Any]:
    """The answer of /rest/rate-limit/all."""
    pro, research = _left(caller, account)
    return {
        "remaining_pro": pro,
        "remaining_research": research,
        "remaining_labs": min(20, research),
        "remaining_agentic_research": 0,
        "free_queries": {"available": True, "remaining_detail": _UNTOLD},
        "model_specific_limits": {},
        "sources": {
            "source_to_limit": {
                "web": {"monthly_limit": None, "remaining": None},
                "scholar": {"monthly_limit": 50, "remaining": min(50, pro)},
            }
        },
    }


def availability(caller: Caller, account: Account | None) -> dict[str, Any]:
    """The answer of /rest/rate-limit/status."""
    pro, research = _left(caller, account)

    def mode(left: int) -> dict[str, Any]:
        return {"available": left > 0, "remaining_detail": {"kind": "exact", "remaining": left}}

    whole = counters(caller, account)
    return {
        "free_queries": whole["free_queries"],
        "modes": {
            "pro_search": mode(pro),
            "research": mode(research),
            "labs": mode(whole["remaining_labs"]),
            "agentic_research": mode(0),
        },
        "sources": whole["sources"],
    }


def check_version(visit: Visit, version: str, *, needed: bool) -> None:
    """A stale `version` in the address is refused with 400 (§1)."""
    given = visit.request.query_params.get("version")
    if given != version and (needed or given is not None):
        raise rejected(f"version {given} is not served")


class LimitsDoor:
    """Reads of an account that spend no query. A gated account meets Cloudflare here, as the seed did."""

    def __init__(self, backend: WebBackend) -> None:
        self._backend = backend

    def _check(self, visit: Visit) -> None:
        if "gated" in visit.flags:
            raise Refused(challenge(403))
        check_version(visit, self._backend.world.web_version, needed=False)

    async def all(self, visit: Visit) -> Response:
        self._check(visit)
        return reply(200, counters(visit.caller, visit.account))

    async def status(self, visit: Visit) -> Response:
        self._check(visit)
        return reply(200, availability(visit.caller, visit.account))

    async def models(self, visit: Visit) -> Response:
        check_version(visit, self._backend.world.web_version, needed=True)
        if visit.request.query_params.get("config_schema") != "v1":
            raise rejected("config_schema is v1")
        orders = visit.account.orders if visit.account else {}
        return reply(200, catalogue(tuple(orders.get("added", ())), frozenset(orders.get("retired", ()))))
