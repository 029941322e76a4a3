"""Reservations and closes of many subjects in a few statements: the ledger's own rules, for its plain case.

Plain is what nearly every chat is: paid out of the user's own purses, by a key without a cap, in the
month its allowance belongs to, and closed at the price that was reserved. Everything else is done one
by one by `ledger`. The books, their locks and their constraints are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from django.utils import timezone

from portal.models.fields import units
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger
from portal.services.rows import Insert, Plain, Select, Update, among, for_update, insert_values, run, update
from portal.wire.clock import month_start

Kind = LedgerEntry.Kind
ZERO = Decimal(0)
PURSES = ("allowance", "own", "reserved")


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
    books = Books(*run(*reads([hold.user_id for hold in holds], [ending.subject for ending in endings])))
    books.settle(endings)
    held = frozenset(hold.subject for hold in holds if books.hold(hold))
    run(*books.writes())
    return held


class Drawn(NamedTuple):
    """What one entry says; `delta` in the column's units."""

    subject: str
    kind: str
    account_id: int
    key_id: int | None
    pool_id: int | None
    delta: int


def reads(users: Collection[int], subjects: Collection[str]) -> tuple[Select, Plain]:
    """What `Books` are made of: the accounts, locked in the order of their ids, then what was written of
    `subjects`, which nobody can change any more."""
    mine, owners = among("user_id", users)
    about, named = among("subject", subjects)
    # Each half by an index of its own; an OR would look at every account.
    either = (
        f"SELECT id FROM portal_creditaccount WHERE {mine}"
        f" UNION SELECT account_id FROM portal_ledgerentry WHERE {about}"
    )
    accounts = Select(CreditAccount, f"WHERE id IN ({either}) ORDER BY id{for_update()}", [*owners, *named])
    columns = ", ".join(Drawn._fields)
    return accounts, Plain(f"SELECT {columns} FROM portal_ledgerentry WHERE {about}", named)


class Books:
    """Locked accounts, and what is to be written about them."""

    def __init__(self, accounts: Iterable[CreditAccount], entries: Iterable[Sequence[Any]]) -> None:
        self._now = timezone.now()
        drawn = [Drawn(*entry) for entry in entries]
        self._known = {(entry.subject, entry.kind): entry for entry in drawn}
        self._entries: list[dict[str, Any]] = []
        self._take(accounts)

    def settle(self, endings: Sequence[Ending]) -> None:
        """Before anything is held. What is not plain is closed at once. Raises ledger.AlreadyClosed."""
        pairs = [(ending, self._drawn(ending)) for ending in endings]
        odd = [ending for ending, drawn in pairs if drawn is not None and not _is_plain(ending, drawn)]
        for ending in odd:
            ledger.close(ending.subject, ending.settled)
        if odd:
            which, keys = among("id", self._accounts)
            self._take(run(Select(CreditAccount, f"WHERE {which} ORDER BY id", keys))[0])
        for ending, drawn in pairs:
            if drawn is not None and _is_plain(ending, drawn):
                self._close(ending, drawn)

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

    def left(self) -> dict[int, Decimal]:
        """What the users' own purses could pay, of those whose month is not over."""
        return {
            user_id: account.allowance + account.own
            for user_id, account in self._by_user.items()
            if user_id is not None and not self._is_month_over(account)
        }

    def writes(self) -> tuple[Insert | None, Update | None]:
        touched = {entry["account_id"] for entry in self._entries}
        changes = {
            key: {purse: getattr(self._accounts[key], purse) for purse in PURSES} for key in sorted(touched)
        }
        return insert_values(LedgerEntry, self._entries), update(CreditAccount, changes)

    def _take(self, accounts: Iterable[CreditAccount]) -> None:
        self._accounts = {account.pk: account for account in accounts}
        self._by_user = {account.user_id: account for account in self._accounts.values()}

    def _drawn(self, ending: Ending) -> Drawn | None:
        """Its reservation; free work has none."""
        if (ending.subject, Kind.CLOSE) in self._known:
            raise ledger.AlreadyClosed(ending.subject)
        return self._known.get((ending.subject, Kind.RESERVE))

    def _close(self, ending: Ending, drawn: Drawn) -> None:
        account = self._accounts[drawn.account_id]
        kept = {"settled": ending.settled, "released": ZERO}
        self._write(account, Kind.CLOSE, ending.subject, drawn.key_id, **kept)
        account.reserved -= ending.settled

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
        entry = {"kind": kind, "subject": subject, "account_id": account.pk, "key_id": key_id}
        parts = {"allowance_delta": allowance, "own_delta": own, "delta": allowance + own}
        self._entries.append({**entry, **parts, **more, "created_at": self._now})


def _is_plain(ending: Ending, drawn: Drawn) -> bool:
    return drawn.pool_id is None and units(ending.settled) == -drawn.delta
