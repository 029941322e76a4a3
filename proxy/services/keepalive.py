"""Session checks: at each start, every KEEPALIVE_HOURS, and whenever an answer made one doubtful.

A check costs no query. It says whether the session lives, and NextAuth answers it with a rotated
cookie, which keeps it alive (perplexity-web §3).
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from portal.services import network, sealing
from portal.wire.errors import Unavailable
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.session import SignedIn
from proxy.services import alerts, duties
from proxy.services.accounts import pool, session_of, store_cookies, trouble
from proxy.services.sessions import REFUSALS
from proxy.upstream import web

Health = WebAccount.Health
AT_ONCE = 16
SOON = timedelta(minutes=2)
"""Until a check that could not be made is tried again."""
Checks = list[tuple[web.Session, datetime, SignedIn | Fault, tuple[str, ...]]]


def check_due() -> int:
    """Check every account whose time has come; how many there were."""
    now = timezone.now()
    due = pool().filter(enabled=True, check_due_at__lte=now).exclude(jar="").order_by("check_due_at")
    return check_accounts(duties.claim_accounts("check_due_at", due[:AT_ONCE]))


def check_accounts(accounts: list[WebAccount]) -> int:
    """Ask for all of them at once, then write down what each answer says."""
    sessions = [session for account in accounts if (session := _session(account)) is not None]
    for session, answered_at, verdict, set_cookies in network.call(_check_all(sessions)):
        if isinstance(verdict, SignedIn):
            store_cookies(session.account_id, session.jar_version, set_cookies, answered_at)
        record(session, verdict)
    return len(accounts)


def check_account(account: WebAccount) -> WebAccount:
    """Check one account now, and give it as it is then."""
    check_accounts([account])
    account.refresh_from_db()
    return account


def check_all_soon() -> None:
    """For a start: whatever was due later is due now."""
    now = timezone.now()
    pool().filter(check_due_at__gt=now).update(check_due_at=now)


@transaction.atomic
def record(session: web.Session, verdict: SignedIn | Fault) -> None:
    """What a check means for its account, unless its cookie was replaced meanwhile."""
    account = WebAccount.objects.select_for_update(no_key=True).get(pk=session.account_id)
    if account.jar_version != session.jar_version:
        return
    now = timezone.now()
    if isinstance(verdict, SignedIn):
        _alive(account, verdict, now)
    elif verdict.kind in REFUSALS:
        _expired(account, now)
    else:
        _undecided(account, verdict, now)


def _alive(account: WebAccount, who: SignedIn, now: datetime) -> None:
    """A sign-in wall that comes back in spite of good checks makes its rests longer: `faults` stays
    until an answer has come."""
    account.checked_at = now
    account.check_due_at = now + timedelta(hours=settings.KEEPALIVE_HOURS)
    account.perplexity_user = who.user_id[:80] or account.perplexity_user
    account.told_tier = who.tier or account.told_tier
    account.health, account.health_at, account.health_reason = Health.ACTIVE, now, ""
    rest = min(30 * 2 ** (account.faults - 2), 900) if account.faults > 1 else 0
    account.retry_at = now + timedelta(seconds=rest) if rest else None
    account.alert_due_at = None
    account.save()


def _expired(account: WebAccount, now: datetime) -> None:
    account.checked_at = now
    account.check_due_at = now + timedelta(hours=settings.KEEPALIVE_HOURS)
    account.health, account.health_at = Health.EXPIRED, now
    account.health_reason = "Perplexity does not accept the session any more."
    account.retry_at = None
    alerts.expiry_due(account, now)
    account.save()


def _undecided(account: WebAccount, fault: Fault, now: datetime) -> None:
    """Cloudflare, a limit or a breakdown says nothing about the session."""
    if fault.kind is FaultKind.BLOCKED:
        trouble(account, Health.BLOCKED, fault)
    elif fault.kind is FaultKind.RATE_LIMITED:
        trouble(account, Health.LIMITED, fault)
    account.check_due_at = max(now + SOON, account.retry_at or now)
    account.save(update_fields=["check_due_at"])


def _session(account: WebAccount) -> web.Session | None:
    """None for one that cannot be asked: the account then says why."""
    try:
        return session_of(account)
    except (sealing.SealError, Unavailable) as error:
        WebAccount.objects.filter(pk=account.pk).update(health_reason=str(error)[:200])
        return None


async def _check_all(sessions: list[web.Session]) -> Checks:
    return list(await asyncio.gather(*(_check(session) for session in sessions)))


async def _check(session: web.Session) -> tuple[web.Session, datetime, SignedIn | Fault, tuple[str, ...]]:
    verdict, set_cookies = await web.check(session)
    return session, timezone.now(), verdict, set_cookies
