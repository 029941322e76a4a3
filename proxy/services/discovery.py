"""Rounds of discovery: which models still answer, and what their successors are (proxy-contract §14).

The upstream's own catalogue is read first, since it costs nothing; only without it are models asked.
A model that fails is that model's trouble, an account that fails ends the asking.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from portal.services import network
from portal.services.principal import Principal
from portal.wire.errors import Unavailable
from portal.wire.sse import SseDecoder, SseTooLong
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Delta, Done, Fault, FaultKind
from proxy.protocol.discovery import (
    PAUSE_SECONDS,
    PROBE_QUESTION,
    Report,
    Round,
    UpstreamCatalogue,
    probe_result,
)
from proxy.protocol.verdicts import EFFECTS
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_request import Ask
from proxy.services import alerts, catalog, duties, rotation
from proxy.services.accounts import note_fault, pool, session_of, tier_of, why_none
from proxy.services.rotation import keep_cookies
from proxy.upstream import web

DUTY = "discovery"
LEASE = timedelta(hours=1)


def discover_due() -> Report | None:
    """The scheduled round, when its time has come and no other process has it."""
    every = timedelta(hours=settings.PROBE_INTERVAL_HOURS)
    until = duties.claim(DUTY, every, LEASE)
    if until is None:
        return None
    try:
        return discover()
    except Unavailable:
        return None  # no session at present: the next round may have one
    finally:
        duties.finish(DUTY, until, every)


def discover(
    *, manual: bool = False, account: WebAccount | None = None, actor: Principal | None = None
) -> Report:
    """One round, with the session of `account` or the best there is: minutes, where the catalogue cannot
    be read. Raises Unavailable without a session."""
    account = account or _account()
    session = session_of(account)
    found = network.call(web.read_catalogue(session))
    catalogue = found if isinstance(found, UpstreamCatalogue) else None
    models, missing = catalog.all_models(), catalog.missing_models()
    round_ = Round(models, missing, tier_of(account), manual=manual, catalogue=catalogue)
    _probe_all(round_, account)
    catalog.apply_report(round_.report, actor)
    alerts.tell_discovery(round_.report)
    return round_.report


def _probe_all(round_: Round, account: WebAccount) -> None:
    trouble: Fault | None = None
    while (preference := round_.next_probe()) is not None:
        if trouble is not None:
            round_.skip(f"not asked: {EFFECTS[trouble.kind].message}")
            continue
        if round_.report.probed:
            time.sleep(PAUSE_SECONDS)
        account.refresh_from_db()
        outcome = network.call(probe(session_of(account), preference))
        round_.tell(probe_result(outcome), _reason(outcome))
        if isinstance(outcome, Fault) and _is_account_s(outcome):
            note_fault(account.pk, outcome, account.jar_version)
            trouble = outcome


async def probe(session: web.Session, preference: str) -> Done | Fault:
    """Ask one model a short question, and how that ended."""
    question = Ask(
        PROBE_QUESTION, preference, timezone=settings.UPSTREAM_TIMEZONE, version=settings.PPLX_API_VERSION
    )
    ids = web.new_ids()
    async with rotation.in_turn(session.account_id):
        opened = await web.ask(session, question, ids)
        if isinstance(opened, Fault):
            return opened
        await keep_cookies(session, opened)
    try:
        return await _read(opened, preference)
    finally:
        await opened.close()


async def _read(opened: web.Opened, preference: str) -> Done | Fault:
    answer, decoder = WebAnswer(preference), SseDecoder()
    deltas: list[Delta] = []
    try:
        while not answer.over and (chunk := await opened.read()):
            for record in decoder.feed(chunk):
                deltas = answer.read(record) or deltas
    except web.Broke as broke:
        return broke.fault
    except SseTooLong:
        return Fault(FaultKind.BROKEN)
    last = (answer.close() or deltas)[-1]
    return last if isinstance(last, Done | Fault) else Fault(FaultKind.CUT)


def _account() -> WebAccount:
    """One of the highest tier that can be asked now."""
    now = timezone.now()
    able = [
        account
        for account in pool().filter(enabled=True).exclude(jar="").exclude(health=WebAccount.Health.EXPIRED)
        if account.retry_at is None or account.retry_at <= now
    ]
    if not able:
        raise why_none(tier_needed="free", counted=False)
    order = WebAccount.Tier.values
    return max(able, key=lambda account: order.index(account.tier))


def _is_account_s(fault: Fault) -> bool:
    effect = EFFECTS[fault.kind]
    return effect.health is not None or effect.check


def _reason(outcome: Done | Fault) -> str:
    if isinstance(outcome, Fault):
        return f"{EFFECTS[outcome.kind].message} ({outcome.detail})" if outcome.detail else outcome.kind
    return f"answered by {outcome.model.preference}" if outcome.model else "no model was named"
