"""What each account has left: read every hour, directly first, through FlareSolverr second."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from portal.services import network, sealing
from portal.services.queue import ring
from portal.wire.errors import Unavailable
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault
from proxy.protocol.quota import Quota, SolverFailed
from proxy.services import duties
from proxy.services.accounts import CARE, pool, session_of
from proxy.upstream import web

Way = WebAccount.Way
EVERY = timedelta(hours=1)
AT_ONCE = 8
BROWSERS = 2
"""Pages that FlareSolverr is asked for at the same time: each is a browser of its own."""
STALE = timedelta(seconds=300)


def read_due() -> int:
    """Read the counters of every account whose time has come; how many there were."""
    due = _readable().filter(quota_due_at__lte=timezone.now()).order_by("quota_due_at")[:AT_ONCE]
    return read_accounts(duties.claim_accounts("quota_due_at", due))


def read_accounts(accounts: list[WebAccount]) -> int:
    sessions = []
    for account in accounts:
        try:
            sessions.append(session_of(account))
        except (sealing.SealError, Unavailable) as error:
            _no_reading(account.pk, account.jar_version, str(error))
    asked_at = timezone.now()
    readings = network.call(_read_all(sessions))
    for session, (quota, way) in zip(sessions, readings, strict=True):
        if isinstance(quota, Quota):
            _store(session, quota, way, asked_at)
        else:
            _no_reading(session.account_id, session.jar_version, quota.reason)
    return len(accounts)


def refresh_stale() -> None:
    """Somebody looks: have counters whose last reading was tried over five minutes ago read now."""
    now = timezone.now()
    tried_before = now - STALE + EVERY
    if _readable().filter(quota_due_at__gt=now, quota_due_at__lt=tried_before).update(quota_due_at=now):
        ring(CARE)


def _readable() -> QuerySet[WebAccount]:
    return pool().filter(enabled=True).exclude(jar="").exclude(health=WebAccount.Health.EXPIRED)


def _store(session: web.Session, quota: Quota, way: WebAccount.Way, asked_at: datetime) -> None:
    """A reading of a cookie that was replaced meanwhile is dropped (proxy-contract §7)."""
    WebAccount.objects.filter(pk=session.account_id, jar_version=session.jar_version).update(
        remaining_pro=quota.pro,
        remaining_research=quota.research,
        quota_at=asked_at,
        quota_way=way,
        quota_problem="",
        quota_due_at=timezone.now() + EVERY,
    )


def _no_reading(account_id: int, jar_version: int, reason: str) -> None:
    """The counters stay as they were."""
    WebAccount.objects.filter(pk=account_id, jar_version=jar_version).update(
        quota_problem=reason[:200], quota_due_at=timezone.now() + EVERY
    )


async def _read_all(sessions: list[web.Session]) -> list[tuple[Quota | SolverFailed, WebAccount.Way]]:
    browsers = asyncio.Semaphore(BROWSERS)
    return list(await asyncio.gather(*(_read(session, browsers) for session in sessions)))


async def _read(
    session: web.Session, browsers: asyncio.Semaphore
) -> tuple[Quota | SolverFailed, WebAccount.Way]:
    direct = await web.read_quota(session)
    if not isinstance(direct, Fault):
        return direct, Way.DIRECT
    async with browsers:
        return await web.solve_quota(session), Way.SOLVER
