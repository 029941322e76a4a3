"""Reservations and closes of many subjects in a few statements: the ledger's own rules, for its plain case.

Plain is what nearly every chat is: paid out of the user's own purses, by a key without a cap, in the
month its allowance belongs to, and closed at the price that was reserved. Everything else is done one
by one by `ledger`. The books, their locks and their constraints are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection
from django.utils import timezone

from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger
from portal.services.rows import insert_rows, update_rows
from portal.wire.clock import month_start

Kind = LedgerEntry.Kind
ZERO = Decimal(0)
ENTRIES = "SELECT * FROM portal_ledgerentry WHERE subject IN ({})"
ACCOUNTS = "SELECT * FROM portal_creditaccount WHERE user_id IN ({}) OR id IN ({}) ORDER BY id"


@dataclass(frozen=True, slots=True)
class Hold:
    """A reservation that is wanted; `amount` is more than nothing."""

    user_id: int
    subject: str
    amount: Decimal
    key_id: int | None


@dataclass(frozen=True, slots=True)
class Ending:
    """A reservation that is over: `settled` of it is kept."""

    subject: str
    settled: Decimal


def move(holds: Sequence[Hold], endings: Sequence[Ending]) -> frozenset[str]:
    """Close all `endings`, then reserve those of `holds` that are plain; the subjects reserved.

    In the caller's transaction. Raises ledger.AlreadyClosed; of a subject that was reserved before, the
    database's constraint ends the transaction. A hold that is left has written nothing: `ledger.reserve`,
    in a transaction of its own, says whether there is enough for it.
    """
    if not holds and not endings:
        return frozenset()
    entries = _entries([ending.subject for ending in endings])
    pairs = [
        (ending, entries[ending.subject, Kind.RESERVE]) for ending in endings if _is_known(ending, entries)
    ]
    ids = {hold.user_id for hold in holds}, {drawn.account_id for _, drawn in pairs}
    accounts = _lock(*ids)
    odd = [ending for ending, drawn in pairs if not _is_plain(ending, drawn)]
    for ending in odd:
        ledger.close(ending.subject, ending.settled)
    books = _Books(_lock(*ids) if odd else accounts)
    for ending, drawn in pairs:
        if _is_plain(ending, drawn):
            books.close(ending, drawn)
    held = [
        hold.subject for hold in holds if (hold.subject, Kind.RESERVE) not in entries and books.hold(hold)
    ]
    books.keep()
    return frozenset(held)


def _is_known(ending: Ending, entries: Mapping[tuple[str, str], LedgerEntry]) -> bool:
    """Free work has no entries. Raises ledger.AlreadyClosed."""
    if (ending.subject, Kind.CLOSE) in entries:
        raise ledger.AlreadyClosed(ending.subject)
    return (ending.subject, Kind.RESERVE) in entries


def _is_plain(ending: Ending, drawn: LedgerEntry) -> bool:
    return drawn.pool_id is None and ending.settled == -drawn.delta


class _Books:
    """Locked accounts, and what is to be written about them."""

    def __init__(self, accounts: Mapping[int, CreditAccount]) -> None:
        self._accounts = accounts
        self._by_user = {account.user_id: account for account in accounts.values()}
        self._entries: list[LedgerEntry] = []
        self._now = timezone.now()

    def hold(self, hold: Hold) -> bool:
        """Whether it was plain, and is held now."""
        account = self._by_user.get(hold.user_id)
        if account is None or self._is_month_over(account):
            return False
        allowance = min(hold.amount, account.allowance)
        own = hold.amount - allowance
        if own > account.own:
            return False
        self._write(account, Kind.RESERVE, hold.subject, hold.key_id, allowance=-allowance, own=-own)
        account.allowance -= allowance
        account.own -= own
        account.reserved += hold.amount
        return True

    def close(self, ending: Ending, drawn: LedgerEntry) -> None:
        account = self._accounts[drawn.account_id]
        kept = {"settled": ending.settled, "released": ZERO}
        self._write(account, Kind.CLOSE, ending.subject, drawn.key_id, **kept)
        account.reserved -= ending.settled

    def keep(self) -> None:
        insert_rows(self._entries)
        touched = {entry.account_id for entry in self._entries}
        purses = ("allowance", "own", "reserved")
        update_rows(
            CreditAccount,
            {key: {purse: getattr(self._accounts[key], purse) for purse in purses} for key in touched},
        )

    def _is_month_over(self, account: CreditAccount) -> bool:
        since = account.allowance_since
        return account.plan_id is not None if since is None else since < month_start(self._now)

    def _write(
        self,
        account: CreditAccount,
        kind: LedgerEntry.Kind,
        subject: str,
        key_id: int | None,
        *,
        allowance: Decimal = ZERO,
        own: Decimal = ZERO,
        **more: Decimal,
    ) -> None:
        entry = LedgerEntry(
            kind=kind, subject=subject, key_id=key_id, account_id=account.pk, created_at=self._now
        )
        entry.allowance_delta, entry.own_delta, entry.delta = allowance, own, allowance + own
        for name, value in more.items():
            setattr(entry, name, value)
        self._entries.append(entry)


def _entries(subjects: Sequence[str]) -> dict[tuple[str, str], LedgerEntry]:
    if not subjects:
        return {}
    found = LedgerEntry.objects.raw(ENTRIES.format(_marks(subjects)), subjects)
    return {(entry.subject, entry.kind): entry for entry in found}


def _lock(users: Collection[int], accounts: Collection[int]) -> dict[int, CreditAccount]:
    """By id, and locked in its order. SQLite, whose transactions are IMMEDIATE, has the whole database."""
    sql = ACCOUNTS.format(_marks(users), _marks(accounts))
    if connection.features.has_select_for_update:
        sql += " FOR UPDATE"
    return {account.pk: account for account in CreditAccount.objects.raw(sql, [*users, *accounts])}


def _marks(values: Collection[object]) -> str:
    """Of an IN list; the database takes an empty one only as NULL."""
    return ", ".join(["%s"] * len(values)) or "NULL"
