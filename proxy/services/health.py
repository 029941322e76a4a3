"""How the pool is, for `/health`: in a word for everybody, in the seed's members for administrators."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from portal.services import upstreams
from proxy.models.accounts import WebAccount
from proxy.services import quota
from proxy.services.accounts import pool

Health = WebAccount.Health
SERVICE = "sonde"


def is_well() -> bool:
    """Not while there are sessions and all of them are signed out (proxy-contract §17.38)."""
    there = pool().filter(enabled=True).exclude(jar="").values_list("health", flat=True)
    states = list(there)
    return not states or any(health != Health.EXPIRED for health in states)


def details() -> dict[str, object]:
    """The seed's members (proxy-contract §3), of the account that is asked first, and all accounts."""
    quota.refresh_stale()
    now = timezone.now()
    accounts = list(pool().filter(enabled=True))
    first = next((one for one in accounts if one.jar), None)
    return {
        "service": SERVICE,
        "cookie_age_hours": _hours(first.jar_changed_at, now) if first else None,
        "configured_session": _session(accounts),
        "remaining_pro": _total([one.remaining_pro for one in accounts]),
        "remaining_research": _total([one.remaining_research for one in accounts]),
        "rate_limit_age_seconds": _age(first.quota_at, now) if first else None,
        "flaresolverr": _solver(accounts),
        "accounts": [_account(one, now) for one in accounts],
    }


def _session(accounts: list[WebAccount]) -> dict[str, object]:
    """`missing`, `unchecked`, `active` or `invalid`, as the whole pool is."""
    states = {one.health for one in accounts if one.jar}
    problem = next((one.import_problem for one in accounts if one.import_problem), "")
    first = next((one for one in accounts if one.jar), None)
    source = None if first is None else "env" if first.imported_digest else "admin"
    if not states:
        status = "invalid" if problem else "missing"
    elif states == {Health.EXPIRED}:
        status = "invalid"
    else:
        status = "unchecked" if states <= {Health.UNCHECKED, Health.EXPIRED} else "active"
    reason = next((one.health_reason for one in accounts if one.health_reason), "")
    return {"status": status, "source": source, "message": problem or reason or None}


def _solver(accounts: list[WebAccount]) -> dict[str, object]:
    """`ok` or `unavailable` once an account needed it."""
    problem = next((one.quota_problem for one in accounts if one.quota_problem), "")
    solved = any(one.quota_way == WebAccount.Way.SOLVER for one in accounts)
    status = "unavailable" if problem else "ok" if solved else "unknown"
    web = upstreams.perplexity_web()
    return {"status": status, "url": web.solver_url if web else "", "last_error": problem or None}


def _account(account: WebAccount, now: datetime) -> dict[str, object]:
    return {
        "name": account.name,
        "tier": account.tier,
        "health": account.health,
        "reason": account.health_reason or None,
        "draining": account.draining,
        "remaining_pro": account.remaining_pro,
        "remaining_research": account.remaining_research,
        "checked_seconds_ago": _age(account.checked_at, now),
        "last_success_seconds_ago": _age(account.succeeded_at, now),
    }


def _total(counters: list[int | None]) -> int | None:
    known = [counter for counter in counters if counter is not None]
    return sum(known) if known else None


def _age(moment: datetime | None, now: datetime) -> int | None:
    return None if moment is None else max(0, int((now - moment).total_seconds()))


def _hours(moment: datetime | None, now: datetime) -> float | None:
    age = _age(moment, now)
    return None if age is None else round(age / 3600, 1)
