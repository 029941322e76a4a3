"""Proves the books: every balance is the sum of its entries, and nobody paid twice (STACK §4.5).

Reads whole tables and writes nothing. Each comparison is one statement, which sees one moment, so
that a portal at work is never taken for one that drifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from portal.models.fields import CreditField
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger_guard

Kind = LedgerEntry.Kind
ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that is wrong, and with what."""

    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Totals:
    """All accounts and pools together; granted = charged + reserved + left."""

    accounts: int
    entries: int
    granted: Decimal
    """Adjustments and what ended with its month counted in."""
    charged: Decimal
    """Settled, less what was refunded."""
    reserved: Decimal
    left: Decimal


def check() -> list[Drift]:
    """Every drift; an empty list is the proof."""
    return [*_balances(), *_repeated(), *_closes(), *_refunds(), *_guards()]


def totals() -> Totals:
    sums = LedgerEntry.objects.aggregate(
        entries=Count("id"),
        granted=_sum("delta", Q(kind__in=[Kind.GRANT, Kind.ADJUST])),
        settled=_sum("settled"),
        refunded=_sum("delta", Q(kind=Kind.REFUND)),
    )
    balances = CreditAccount.objects.aggregate(
        accounts=Count("id"),
        allowance=_sum("allowance"),
        own=_sum("own"),
        held=_sum("reserved", Q(team=None)),
    )
    return Totals(
        accounts=balances["accounts"],
        entries=sums["entries"],
        granted=sums["granted"],
        charged=sums["settled"] - sums["refunded"],
        reserved=balances["held"],
        left=balances["allowance"] + balances["own"],
    )


def open_reservations() -> QuerySet[LedgerEntry]:
    """Reserved and not closed: of research, exactly the runs that cost something and still live."""
    closed = LedgerEntry.objects.filter(kind=Kind.CLOSE, subject=OuterRef("subject"))
    return LedgerEntry.objects.filter(~Exists(closed), kind=Kind.RESERVE)


def _balances() -> Iterator[Drift]:
    """I1 and I2: what an account says against what its entries add up to."""
    entries, still_open = LedgerEntry.objects.all(), open_reservations()
    accounts = CreditAccount.objects.select_related("user", "team").annotate(
        sum_allowance=_of_account(entries, "account", "allowance_delta"),
        sum_own=_of_account(entries, "account", "own_delta"),
        sum_pool=_of_account(entries, "pool", "pool_delta"),
        held=_of_account(still_open, "account", "delta"),
        held_of_pool=_of_account(still_open, "pool", "pool_delta"),
    )
    for account in accounts.iterator(chunk_size=500):
        expected = {
            "allowance": account.sum_allowance,
            "own": account.sum_own + account.sum_pool,
            "reserved": -account.held - account.held_of_pool,
        }
        for name, amount in expected.items():
            kept = getattr(account, name)
            if kept != amount:
                yield Drift(str(account), f"{name} is {kept:f}, its entries say {amount:f}")
            if kept < 0:
                yield Drift(str(account), f"{name} is below zero")


def _repeated() -> Iterator[Drift]:
    """I3: at most one reserve, one close and one refund for one subject."""
    once = LedgerEntry.objects.filter(kind__in=[Kind.RESERVE, Kind.CLOSE, Kind.REFUND])
    groups = once.order_by().values("subject", "kind").annotate(count=Count("id")).filter(count__gt=1)
    for group in groups.iterator():
        yield Drift(group["subject"], f"{group['count']} entries of kind {group['kind']}")


def _closes() -> Iterator[Drift]:
    """I1: a close settles and releases exactly what was reserved, for the same account."""
    reserve = LedgerEntry.objects.filter(
        kind=Kind.RESERVE, subject=OuterRef("subject"), account=OuterRef("account")
    )
    off = ExpressionWrapper(F("settled") + F("released") + F("drawn"), output_field=CreditField())
    closes = LedgerEntry.objects.filter(kind=Kind.CLOSE)
    closes = closes.annotate(drawn=Subquery(reserve.values("delta")[:1])).annotate(off=off)
    for entry in closes.filter(Q(drawn=None) | ~Q(off=0)).iterator():
        yield Drift(entry.subject, "closed with another amount than was reserved")


def _refunds() -> Iterator[Drift]:
    """A refund gives back at most what its close settled."""
    close = LedgerEntry.objects.filter(kind=Kind.CLOSE, subject=OuterRef("subject"))
    refunds = LedgerEntry.objects.filter(kind=Kind.REFUND)
    refunds = refunds.annotate(paid=Subquery(close.values("settled")[:1]))
    for entry in refunds.filter(Q(paid=None) | Q(delta__gt=F("paid"))).iterator():
        yield Drift(entry.subject, "refunded more than was charged")


def _guards() -> Iterator[Drift]:
    for gap in ledger_guard.missing():
        yield Drift("database", f"nothing forbids {gap}")


def _of_account(entries: QuerySet[LedgerEntry], which: str, field: str) -> Any:
    rows = entries.filter(**{which: OuterRef("pk")}).order_by().values(which)
    total = Subquery(rows.annotate(total=Sum(field)).values("total"))
    return Coalesce(total, ZERO, output_field=CreditField())


def _sum(field: str, condition: Q | None = None) -> Any:
    return Coalesce(Sum(field, filter=condition), ZERO, output_field=CreditField())
