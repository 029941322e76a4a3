"""The pool: which web session answers next, and what each answer says about it.

Everything here is one short piece of database work for the caller's thread; the network is asked
elsewhere. Lock order: an account before the ledger, always. Whoever takes or notes an account and
moves money in one transaction does it in this order, or two chats wait for each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from typing import Literal, cast

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from portal.services import sealing, upstreams
from portal.services.errors import Invalid
from portal.services.queue import ring_after_commit
from portal.services.rows import Plain, Select, among, for_update
from portal.services.transactions import joined
from portal.wire.errors import Problem, Unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.research import DeepResearch
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.session import Jar, Tier, merge, token_of
from proxy.protocol.verdicts import EFFECTS, LONGEST_WAIT, out_of_uses
from proxy.upstream.web import Session

Health = WebAccount.Health
Uses = Literal["pro", "research"]
"""Which of an account's two counters an answer takes from (perplexity-web §11)."""
SUCCESS = ("succeeded_at", "remaining_pro", "health", "health_reason", "faults", "retry_at")
LOADS = """
SELECT account_id, count(*) FROM (
    SELECT account_id FROM proxy_chatturn WHERE state = 'open' AND lease_until > %s
    UNION ALL
    SELECT account_id FROM proxy_deepresearch WHERE held_until > %s
) AS busy WHERE account_id IS NOT NULL GROUP BY account_id
"""
CARE = "proxy.care"
QUOTA_STALE = timedelta(hours=6)
"""A counter that nobody could read again for so long is none."""
REST = {Health.BLOCKED: (30, 900), Health.LIMITED: (10, 300)}
"""Seconds that a troubled account rests: at first, and at most; each fault in a row doubles them."""
_BUSY = "Every Perplexity session is busy: try again in a moment."
_WHY_ALL_REST: Mapping[str, str] = {
    Health.BLOCKED: "Perplexity's network protection refuses every session for now.",
    Health.LIMITED: "Perplexity limits the requests of every session for now.",
}
SUSPECT_SECONDS = 15
"""How long an account under suspicion waits for its session check."""


def take_account(
    *,
    tier_needed: Tier,
    counted: bool,
    excluded: Collection[int] = (),
    preferred: int | None = None,
    uses: Uses = "pro",
) -> WebAccount | None:
    """The account to ask next, locked until the transaction ends; None when none is free.

    The caller writes its open turn in the same transaction: that is what occupies the place.
    `counted` is whether the answer uses up quota, `preferred` the account whose thread is continued.
    """
    now = timezone.now()
    may = partial(may_be_asked, now=now, tier_needed=tier_needed, counted=counted, uses=uses)
    rows = pool().exclude(pk__in=excluded).annotate(load=_load(now))
    loads = {account: account.load for account in rows if may(account)}
    free = [account for account, load in loads.items() if load < account.parallel_limit]
    free.sort(key=lambda one: (one.pk != preferred, *rank(one, loads[one])))
    taken = (mine for account in free if (mine := _lock(account.pk, may)))
    return next(taken, None)


def is_anyone_busy(
    *, tier_needed: Tier, counted: bool, excluded: Collection[int] = (), uses: Uses = "pro"
) -> bool:
    """Whether an account that `take_account` did not take lacks nothing but a free place."""
    may = partial(may_be_asked, now=timezone.now(), tier_needed=tier_needed, counted=counted, uses=uses)
    return any(may(account) for account in pool().exclude(pk__in=excluded))


def why_none(*, tier_needed: Tier, counted: bool, uses: Uses = "pro") -> Problem:
    """What to tell a caller for whom `take_account` found nothing."""
    now = timezone.now()
    there = [account for account in pool() if account.enabled and account.jar]
    if not there:
        return _unavailable("No Perplexity session is configured: an administrator must add one.")
    readable = [account for account in there if can_be_opened(account.pk, account.jar)]
    if not readable:
        return _unavailable("No stored Perplexity session can be opened: see manage.py doctor.")
    alive = [account for account in readable if account.health != Health.EXPIRED]
    if not alive:
        return _unavailable("No Perplexity session is signed in: an administrator must renew it.")
    able = [account for account in alive if account.tier in _tiers(tier_needed)]
    if counted and able and all(_is_used_up(account, now, uses) for account in able):
        return out_of_uses()
    waits = [account.retry_at for account in able if account.retry_at and account.retry_at > now]
    all_wait = len(waits) == len(able) and bool(waits)
    seconds = int((min(waits) - now).total_seconds()) + 1 if all_wait else 2
    why: set[str] = {account.health for account in able} if all_wait else set()
    told = _WHY_ALL_REST.get(why.pop(), _BUSY) if len(why) == 1 else _BUSY
    return _unavailable(told, seconds)


def session_of(account: WebAccount) -> Session:
    """What the upstream calls need. Errors: sealing.SealError; Unavailable before the sandbox listens."""
    upstream = upstreams.sandbox_web() if account.sandbox else upstreams.live_web()
    if upstream is None:
        raise _unavailable("The sandbox has not started yet: try again in a moment.", 2)
    return Session(account.pk, account.name, tier_of(account), jar_of(account), account.jar_version, upstream)


def tier_of(account: WebAccount) -> Tier:
    return cast(Tier, account.tier)


def note_success(account_id: int, *, counted: bool, opened_at: datetime | None = None) -> WebAccount | None:
    """An answer came to its end; the account as it is now, if it is still there."""
    with joined():
        account = WebAccount.objects.select_for_update(no_key=True).filter(pk=account_id).first()
        if account is not None:
            succeed(account, counted=counted, opened_at=opened_at)
            account.save(update_fields=SUCCESS)
        return account


def succeed(account: WebAccount, *, counted: bool, opened_at: datetime | None = None) -> None:
    """Put an answer's end into the row, which the caller has locked and saves (`SUCCESS`).

    What was opened before the last trouble does not clear it.
    """
    now = timezone.now()
    account.succeeded_at = now
    if counted and account.remaining_pro:
        account.remaining_pro -= 1
    is_about_now = account.health_at is None or account.health_at <= (opened_at or now)
    if account.health != Health.EXPIRED and is_about_now:
        account.health, account.health_reason = Health.ACTIVE, ""
        account.faults, account.retry_at = 0, None


def note_research(account_id: int) -> None:
    """The upstream took a deep research, which counts from that moment."""
    rows = WebAccount.objects.filter(pk=account_id, remaining_research__gt=0)
    rows.update(remaining_research=F("remaining_research") - 1)


@transaction.atomic
def note_fault(account_id: int, fault: Fault, jar_version: int | None = None, *, uses: Uses = "pro") -> None:
    """An answer failed. Only what says something about the account changes it (verdicts.EFFECTS).

    A fault of a cookie that was replaced meanwhile (`jar_version`) says nothing about the new one, and
    trouble with an attachment nothing about questions, unless the session itself is in doubt.
    """
    effect = EFFECTS[fault.kind]
    if (effect.health is None and not effect.check) or (fault.param and not effect.check):
        return
    account = WebAccount.objects.select_for_update(no_key=True).filter(pk=account_id).first()
    if account is None or (jar_version is not None and account.jar_version != jar_version):
        return
    if effect.check or effect.health is None:
        suspect(account)
        ring_after_commit(CARE)
    elif fault.kind is FaultKind.QUOTA and uses == "research":
        # Chats have a counter of their own: for them nothing is wrong with the account.
        account.remaining_research, account.quota_at = 0, timezone.now()
        account.save(update_fields=["remaining_research", "quota_at"])
    else:
        trouble(account, Health(effect.health), fault)


def suspect(account: WebAccount) -> None:
    """Put it aside until the session endpoint has said what is true. The caller holds its lock."""
    now = timezone.now()
    account.faults = min(account.faults + 1, 1000)
    account.retry_at = now + timedelta(seconds=SUSPECT_SECONDS)
    account.check_due_at = min(account.check_due_at, now)
    account.save(update_fields=["faults", "retry_at", "check_due_at"])


def trouble(account: WebAccount, health: WebAccount.Health, fault: Fault) -> None:
    """Give it `health`, and a rest that grows with each fault in a row. The caller holds its lock."""
    now = timezone.now()
    first, most = REST[health]
    rest = fault.retry_after or min(first * 2 ** min(account.faults, 10), most)
    account.faults = min(account.faults + 1, 1000)
    account.health, account.health_at = health, now
    account.health_reason = (fault.detail or EFFECTS[fault.kind].message)[:200]
    fields = ["faults", "health", "health_at", "health_reason", "retry_at"]
    if fault.kind is FaultKind.QUOTA:
        # Models that are not counted still answer.
        account.remaining_pro, account.quota_at, account.retry_at = 0, now, None
        fields += ["remaining_pro", "quota_at"]
    else:
        account.retry_at = now + timedelta(seconds=rest)
    account.save(update_fields=fields)


@transaction.atomic
def store_cookies(
    account_id: int,
    jar_version_seen: int,
    set_cookies: Iterable[str],
    answered_at: datetime | None = None,
) -> None:
    """Keep what an accepted answer set, at once: before its text goes to anybody.

    The token of the answer that came last stays, whichever of two is written first; `answered_at`
    is when its head came (default: now). A jar that somebody replaced since is left alone.
    """
    lines = tuple(set_cookies)
    if not lines:
        return
    moment = answered_at or timezone.now()
    account = WebAccount.objects.select_for_update(no_key=True).get(pk=account_id)
    is_late = account.rotated_at is not None and account.rotated_at > moment
    if account.jar_version != jar_version_seen or is_late:
        return
    before = jar_of(account)
    merged = merge(before, lines)
    if merged == before or not token_of(merged):
        return
    seal_jar(account, merged)
    account.rotated_at = moment
    account.save(update_fields=["jar", "rotated_at"])


def pool() -> QuerySet[WebAccount]:
    """The accounts of the upstream that chat goes to now: those of the other never see it."""
    return WebAccount.objects.filter(sandbox=upstreams.uses_sandbox())


def is_of_pool(account: WebAccount) -> bool:
    """Of rows that were locked with others: whether it is one that `pool` has."""
    return account.sandbox == upstreams.uses_sandbox()


def lock_pool(also: Collection[int] = ()) -> Select:
    """Every account of the pool, and `also` these, locked in the order of their ids."""
    named, keys = among("id", also)
    which = f"WHERE sandbox = %s OR {named} ORDER BY id{for_update()}"
    return Select(WebAccount, which, [upstreams.uses_sandbox(), *keys])


def loads() -> Plain:
    """Account and how many answers it is giving now, chats and deep research, in pairs."""
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    return Plain(LOADS, [now, now])


def open_turns(account: WebAccount) -> int:
    """How many answers it is giving now, deep researches among them."""
    rows = WebAccount.objects.filter(pk=account.pk).annotate(load=_load(timezone.now()))
    load: int = rows.values_list("load", flat=True).get()
    return load


def with_load(accounts: QuerySet[WebAccount]) -> QuerySet[WebAccount]:
    """The same rows, each with its `load`."""
    return accounts.annotate(load=_load(timezone.now()))


def find_account(name: str) -> WebAccount:
    """Raises Invalid for a name that nobody has."""
    account = WebAccount.objects.filter(name=name).first()
    if account is None:
        raise Invalid(f"there is no account called {name!r}", "account")
    return account


def jar_of(account: WebAccount) -> Jar:
    """Its cookies. Errors: sealing.SealError."""
    return _opened(account.pk, account.jar)


@lru_cache(maxsize=512)
def _opened(account_id: int, jar: str) -> Jar:
    opened: Jar = json.loads(sealing.unseal(WebAccount(pk=account_id, jar=jar), "jar"))
    return opened


def seal_jar(account: WebAccount, jar: Jar) -> None:
    """Put cookies into the row, which has its id; the caller saves it."""
    account.jar = sealing.seal(json.dumps(dict(jar)), account, "jar")


def may_be_asked(
    account: WebAccount, *, now: datetime, tier_needed: Tier, counted: bool, uses: Uses = "pro"
) -> bool:
    """Whether it may be asked now, as far as its row tells: places are another question."""
    if not account.enabled or account.draining or not account.jar or account.health == Health.EXPIRED:
        return False
    if not can_be_opened(account.pk, account.jar):
        return False
    if account.tier not in _tiers(tier_needed) or (account.retry_at is not None and account.retry_at > now):
        return False
    # One that nobody has seen alive for long is checked first (SPEC 10.23).
    proven_since = now - timedelta(hours=settings.COOKIE_MAX_AGE_HOURS)
    seen = (account.checked_at, account.succeeded_at, account.jar_changed_at)
    if not any(at is not None and at >= proven_since for at in seen):
        return False
    return not (counted and _is_used_up(account, now, uses))


@lru_cache(maxsize=512)
def can_be_opened(account_id: int, jar: str) -> bool:
    """Whether the key that seals these cookies is there. Of an account whose key is gone nobody asks."""
    try:
        _opened(account_id, jar)
    except sealing.SealError:
        return False
    return True


def _is_used_up(account: WebAccount, now: datetime, uses: Uses) -> bool:
    is_known = account.quota_at is not None and account.quota_at >= now - QUOTA_STALE
    left = account.remaining_pro if uses == "pro" else account.remaining_research
    return left == 0 and is_known


def _load(now: datetime) -> Combinable:
    """How many answers an account is giving: it reads what is open only, by its own index."""
    chats, researches = (
        mine.filter(account=OuterRef("pk")).order_by().values("account").annotate(count=Count("pk"))
        for mine in (_open(now), _researching(now))
    )
    return Coalesce(Subquery(chats.values("count")), 0) + Coalesce(Subquery(researches.values("count")), 0)


def _open(now: datetime) -> QuerySet[ChatTurn]:
    return ChatTurn.objects.filter(state=ChatTurn.State.OPEN, lease_until__gt=now)


def _researching(now: datetime) -> QuerySet[DeepResearch]:
    return DeepResearch.objects.filter(held_until__gt=now)


def rank(account: WebAccount, load: int) -> tuple[int, bool, float, float]:
    """By priority; then healthy before doubtful, idle before busy, long unused before just used."""
    used = account.succeeded_at.timestamp() if account.succeeded_at else 0.0
    busy = load / account.parallel_limit
    return account.priority, account.health != Health.ACTIVE, busy, used


def _lock(account_id: int, may: Callable[[WebAccount], bool]) -> WebAccount | None:
    """The account, locked, if it may still be asked and has a place. Its lock is given back when it has
    none, so that nobody waits for one account while holding another."""
    with suppress(_Taken, WebAccount.DoesNotExist), transaction.atomic():
        account = pool().select_for_update(no_key=True).get(pk=account_id)
        if not may(account) or open_turns(account) >= account.parallel_limit:
            raise _Taken
        return account
    return None


class _Taken(Exception):
    """Somebody else got the last place."""


@cache
def _tiers(needed: Tier) -> list[str]:
    """`needed` and whatever is above it."""
    tiers = WebAccount.Tier.values
    return tiers[tiers.index(needed) :]


def _unavailable(message: str, seconds: int | None = None) -> Unavailable:
    """Without `seconds`, only an administrator can help: repeating it is no use."""
    if seconds is None:
        return Unavailable(message, headers={"x-should-retry": "false"})
    return Unavailable(message, headers={"Retry-After": str(min(max(seconds, 1), LONGEST_WAIT))})
