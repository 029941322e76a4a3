"""Credits move here and nowhere else.

Every function opens a transaction, or joins the caller's, and locks the account row before it
reads: the user's account first, then the team's pool. It raises before it writes, so that the
caller's transaction may go on. PostgreSQL locks the row; SQLite, whose
transactions are IMMEDIATE, the whole database. Constraints and triggers of the database stand
behind this module, so that a mistake here is an error and never a wrong balance.

A free run (amount 0) has no entries: reserving nothing and closing what was never reserved do
nothing. A month is a calendar month, UTC.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from portal.models.keys import ApiKey
from portal.models.ledger import CreditAccount, LedgerEntry, Plan
from portal.models.teams import Team
from portal.models.users import User
from portal.services.transactions import joined
from portal.wire.clock import month_start

log = logging.getLogger(__name__)

Kind = LedgerEntry.Kind
ZERO = Decimal(0)


class InsufficientCredit(Exception):
    """Not enough is left to spend, or the key's monthly cap is reached. Nothing was written."""


class AlreadyReserved(Exception):
    """The subject has its reservation. Nothing was written."""


class AlreadyClosed(Exception):
    """The subject was closed before, by whoever came first. Nothing was written."""


class NotRefundable(Exception):
    """Nothing was settled for the subject, less than asked, or it was refunded before."""


ONCE: dict[Kind, type[Exception]] = {
    Kind.RESERVE: AlreadyReserved,
    Kind.CLOSE: AlreadyClosed,
    Kind.REFUND: NotRefundable,
}


@dataclass(frozen=True, slots=True)
class Parts:
    """An amount of credits by the purses it is drawn from, in drawing order."""

    allowance: Decimal = ZERO
    own: Decimal = ZERO
    pool: Decimal = ZERO

    @property
    def total(self) -> Decimal:
        return self.allowance + self.own + self.pool

    def __neg__(self) -> Parts:
        return Parts(-self.allowance, -self.own, -self.pool)

    def __sub__(self, other: Parts) -> Parts:
        return Parts(self.allowance - other.allowance, self.own - other.own, self.pool - other.pool)

    def draw(self, amount: Decimal) -> Parts:
        """Up to `amount` of what is here: allowance first, then own, then pool."""
        allowance = min(amount, self.allowance)
        own = min(amount - allowance, self.own)
        return Parts(allowance, own, min(amount - allowance - own, self.pool))

    def give_back(self, amount: Decimal) -> Parts:
        """Up to `amount` of what was drawn, last drawn first: pool, then own, then allowance."""
        pool = min(amount, self.pool)
        own = min(amount - pool, self.own)
        return Parts(min(amount - pool - own, self.allowance), own, pool)


NOTHING = Parts()


@dataclass(frozen=True, slots=True)
class Closed:
    """What a close did; both are 0 for a subject that was never reserved."""

    settled: Decimal
    released: Decimal


@dataclass(frozen=True, slots=True)
class Balance:
    """What one user can spend, by purse, and what their work in flight holds."""

    allowance: Decimal = ZERO
    own: Decimal = ZERO
    pool: Decimal = ZERO
    reserved: Decimal = ZERO

    @property
    def available(self) -> Decimal:
        return self.allowance + self.own + self.pool


def balance_of(user_id: int) -> Balance:
    """One query, no lock. An allowance whose month has ended counts as the new month's."""
    row = (
        CreditAccount.objects.filter(user_id=user_id)
        .values_list(
            "allowance",
            "own",
            "reserved",
            "allowance_since",
            "plan__allowance",
            "user__membership__team__pool__own",
        )
        .first()
    )
    if row is None:
        return Balance()
    allowance, own, reserved, since, planned, pool = row
    return Balance(_counted(allowance, since, planned), own, pool or ZERO, reserved)


def balance_in(account: CreditAccount, pool: CreditAccount | None) -> Balance:
    """The same from rows that were read before; `account` with its plan."""
    planned = account.plan.allowance if account.plan else None
    allowance = _counted(account.allowance, account.allowance_since, planned)
    return Balance(allowance, account.own, pool.own if pool else ZERO, account.reserved)


def reserve(user_id: int, subject: str, amount: Decimal, *, key_id: int | None = None) -> None:
    """Hold `amount` for `subject`, drawn from allowance, own credits and the team's pool.

    Raises InsufficientCredit or AlreadyReserved.
    """
    if amount < 0:
        raise ValueError("a reservation cannot be negative")
    if amount == 0:
        return
    with joined():
        _reserve(user_id, subject, amount, key_id, timezone.now())


def _reserve(user_id: int, subject: str, amount: Decimal, key_id: int | None, now: datetime) -> None:
    account = _lock(user_id=user_id)
    if account is None:
        raise InsufficientCredit
    _roll_allowance(account, now)
    if key_id is not None:
        _respect_cap(key_id, amount, now)
    parts = Parts(account.allowance, account.own).draw(amount)
    pool = None
    if parts.total < amount:
        pool = _lock(team__memberships__user_id=user_id)
        parts = Parts(account.allowance, account.own, pool.own if pool else ZERO).draw(amount)
    if parts.total < amount:
        raise InsufficientCredit
    entry = LedgerEntry(kind=Kind.RESERVE, subject=subject, key_id=key_id)
    _write(entry, account, -parts, pool if parts.pool else None, now, held=parts)


def close(subject: str, settled: Decimal) -> Closed:
    """End the reservation of `subject`: keep `settled`, give the rest back to where it came from.

    More than was reserved settles at the reserved amount. Raises AlreadyClosed.
    """
    if settled < 0:
        raise ValueError("nothing negative can be settled")
    with joined():
        return _close(subject, settled)


def _close(subject: str, settled: Decimal) -> Closed:
    drawn = _entry(subject, Kind.RESERVE)
    if drawn is None:
        return Closed(ZERO, ZERO)
    reserved = -drawn.delta
    if settled > reserved:
        log.warning("%s cost %s credits, reserved were %s: settled at those", subject, settled, reserved)
        settled = reserved
    account, pool = _lock_both(drawn)
    back = (-_parts(drawn)).give_back(reserved - settled)
    entry = LedgerEntry(
        kind=Kind.CLOSE, subject=subject, key_id=drawn.key_id, settled=settled, released=back.total
    )
    now = timezone.now()
    _write(entry, account, back, pool, now, held=_parts(drawn))
    if back.allowance and _has_ended(drawn, account, now):
        _expire(account, back.allowance, month_start(drawn.created_at), now)
    return Closed(settled, back.total)


@transaction.atomic
def refund(subject: str, amount: Decimal, *, reason: str, actor_id: int | None) -> None:
    """Give back `amount` of what a close settled; once. Raises NotRefundable.

    It returns to the purses it came from; what came from a month's allowance that has ended is
    given as own credits, since it would be worth nothing there.
    """
    drawn, closing = _entry(subject, Kind.RESERVE), _entry(subject, Kind.CLOSE)
    if drawn is None or closing is None or closing.settled is None or not 0 < amount <= closing.settled:
        raise NotRefundable(subject)
    account, pool = _lock_both(drawn)
    back = (-_parts(drawn) - _parts(closing)).give_back(amount)
    now = timezone.now()
    if _has_ended(drawn, account, now):
        back = Parts(ZERO, back.own + back.allowance, back.pool)
    entry = LedgerEntry(kind=Kind.REFUND, subject=subject, reason=reason)
    entry.key_id, entry.actor_id = drawn.key_id, actor_id
    _write(entry, account, back, pool, now)


@transaction.atomic
def grant(
    account: CreditAccount, amount: Decimal, *, grant_key: str, reason: str, actor_id: int | None
) -> bool:
    """Add `amount` as own credits. False, and nothing done, when `grant_key` was used before."""
    if amount <= 0:
        raise ValueError("a grant must be more than nothing")
    held = _lock(pk=account.pk)
    if held is None:
        raise CreditAccount.DoesNotExist
    return _grant(held, Parts(own=amount), grant_key, reason, actor_id, timezone.now())


@transaction.atomic
def adjust(account: CreditAccount, delta: Decimal, *, reason: str, actor_id: int | None) -> None:
    """Correct a balance; what is taken comes from own credits, then from the allowance.

    Raises InsufficientCredit when less is left than shall be taken.
    """
    if delta == 0 or not reason:
        raise ValueError("an adjustment needs an amount and a reason")
    held = _lock(pk=account.pk)
    if held is None:
        raise CreditAccount.DoesNotExist
    now = timezone.now()
    _roll_allowance(held, now)
    parts = Parts(own=delta) if delta > 0 else -Parts(held.allowance, held.own).give_back(-delta)
    if parts.total != delta:
        raise InsufficientCredit
    entry = LedgerEntry(kind=Kind.ADJUST, reason=reason, actor_id=actor_id)
    _write(entry, held, parts, None, now)


@transaction.atomic
def open_account(user: User, *, credits: Decimal | None = None, actor_id: int | None = None) -> CreditAccount:
    """A newcomer's account: the default plan's allowance, or exactly `credits` and no plan."""
    plan = Plan.objects.filter(is_default=True).first() if credits is None else None
    account = CreditAccount.objects.create(user=user, plan=plan)
    now = timezone.now()
    _roll_allowance(account, now)
    if credits:
        _grant(account, Parts(own=credits), "welcome", "welcome", actor_id, now)
    return account


def open_pool(team: Team) -> CreditAccount:
    """The team's pool; made when there is none."""
    return CreditAccount.objects.get_or_create(team=team)[0]


def lock_account(user_id: int) -> None:
    """Be alone with somebody's account until the caller's transaction ends, as whoever reserves is."""
    _lock(user_id=user_id)


def _lock(**which: object) -> CreditAccount | None:
    rows = CreditAccount.objects.select_for_update(of=("self",), no_key=True).select_related("plan")
    return rows.filter(**which).first()


def _lock_both(drawn: LedgerEntry) -> tuple[CreditAccount, CreditAccount | None]:
    """The accounts of a reservation: the user's, then the pool's."""
    account = CreditAccount.objects.select_for_update(no_key=True).get(pk=drawn.account_id)
    if drawn.pool_id is None:
        return account, None
    return account, CreditAccount.objects.select_for_update(no_key=True).get(pk=drawn.pool_id)


def _entry(subject: str, kind: Kind) -> LedgerEntry | None:
    return LedgerEntry.objects.filter(subject=subject, kind=kind).first()


def _parts(entry: LedgerEntry) -> Parts:
    return Parts(entry.allowance_delta, entry.own_delta, entry.pool_delta)


def _respect_cap(key_id: int, amount: Decimal, now: datetime) -> None:
    """The key's monthly cap counts what was reserved this month, less what came back of it."""
    cap = ApiKey.objects.filter(pk=key_id).values_list("monthly_cap", flat=True).first()
    if cap is None:
        return
    kinds = [Kind.RESERVE, Kind.CLOSE, Kind.REFUND]
    this_month = LedgerEntry.objects.filter(key_id=key_id, created_at__gte=month_start(now))
    reserved = this_month.filter(kind=Kind.RESERVE).values("subject")
    used = this_month.filter(kind__in=kinds, subject__in=reserved).aggregate(sum=Sum("delta"))["sum"]
    if amount - (used or ZERO) > cap:
        raise InsufficientCredit


def _counted(allowance: Decimal, since: datetime | None, planned: Decimal | None) -> Decimal:
    """What is left of the allowance today; `planned` is the plan's, None without a plan."""
    return (planned or ZERO) if _is_due(since, planned is not None, timezone.now()) else allowance


def _is_due(since: datetime | None, has_plan: bool, now: datetime) -> bool:
    """Whether an allowance is to be ended or begun. Clocks that run back change nothing."""
    return has_plan if since is None else since < month_start(now)


def _has_ended(drawn: LedgerEntry, account: CreditAccount, now: datetime) -> bool:
    """Whether the month whose allowance was drawn is over, for the account or by the clock."""
    month = month_start(drawn.created_at)
    return account.allowance_since != month or month < month_start(now)


def _roll_allowance(account: CreditAccount, now: datetime) -> None:
    """End what is left of a month that is over, and begin the new one. The row is locked."""
    if not _is_due(account.allowance_since, account.plan is not None, now):
        return
    if account.allowance and account.allowance_since:
        _expire(account, account.allowance, account.allowance_since, now)
    account.allowance_since = month_start(now) if account.plan else None
    account.save(update_fields=["allowance_since"])
    if account.plan and account.plan.allowance:
        parts = Parts(allowance=account.plan.allowance)
        _grant(account, parts, f"allowance:{now:%Y-%m}", f"allowance of {now:%Y-%m}", None, now)


def _expire(account: CreditAccount, amount: Decimal, month: datetime, now: datetime) -> None:
    entry = LedgerEntry(kind=Kind.ADJUST, reason=f"allowance of {month:%Y-%m} ended")
    _write(entry, account, Parts(allowance=-amount), None, now)


def _grant(
    account: CreditAccount, parts: Parts, grant_key: str, reason: str, actor_id: int | None, now: datetime
) -> bool:
    if LedgerEntry.objects.filter(account=account, kind=Kind.GRANT, grant_key=grant_key).exists():
        return False
    entry = LedgerEntry(kind=Kind.GRANT, grant_key=grant_key, reason=reason, actor_id=actor_id)
    _write(entry, account, parts, None, now)
    return True


def _write(
    entry: LedgerEntry,
    account: CreditAccount,
    parts: Parts,
    pool: CreditAccount | None,
    now: datetime,
    *,
    held: Parts = NOTHING,
) -> None:
    """One entry, and the balances it explains. `held` is what it adds to the open reservations."""
    entry.account, entry.pool, entry.created_at = account, pool, now
    entry.delta = parts.total
    entry.allowance_delta, entry.own_delta, entry.pool_delta = parts.allowance, parts.own, parts.pool
    _insert(entry)
    account.allowance += parts.allowance
    account.own += parts.own
    account.reserved += held.total
    _keep(account)
    if pool is not None:
        pool.own += parts.pool
        pool.reserved += held.pool
        _keep(pool)


def _keep(account: CreditAccount) -> None:
    """The row is locked, so that what was read is what is there."""
    CreditAccount.objects.filter(pk=account.pk).update(
        allowance=account.allowance, own=account.own, reserved=account.reserved
    )


def _insert(entry: LedgerEntry) -> None:
    """Whoever has the account's lock sees every entry of the subject. The constraint stands behind
    that, and so ends a transaction that got here without the lock."""
    once = ONCE.get(Kind(entry.kind))
    if once is not None and _entry_exists(entry.subject, entry.kind):
        raise once(entry.subject)
    entry.save(force_insert=True)


def _entry_exists(subject: str, kind: str) -> bool:
    return LedgerEntry.objects.filter(subject=subject, kind=kind).exists()
