"""What is wrong after a mixed load: with what is held, with the books, with what callers were told."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from bench.mixed.gauges import Process, Reading
from bench.mixed.lags import Lags
from bench.mixed.portals import Portal
from bench.mixed.visitor import Notes

CLOSE_SECONDS = 2.0
"""From a caller's leaving to the end of the upstream's answer (QUALITY R5)."""
IDLE = 4
"""Connections that a process may keep to its upstream for its next question."""
MORE_FILES = 12
MORE_THREADS = 24
MORE_MIB = 24.0
MORE_OF_MEMORY = 1.15
"""From the half of the load to the end: what an allocator takes at a peak it keeps, so that only what goes
on growing is a leak."""
UPSTREAM = "upstream"
"""Its name among the lags."""
ASK = "/rest/sse/perplexity_ask"
TWICE = (
    "SELECT subject, kind FROM portal_ledgerentry WHERE subject <> ''"
    " GROUP BY subject, kind HAVING COUNT(*) > 1"
)
ORPHANS = (
    "SELECT d.state, r.state, r.error_code, r.submissions, r.backend FROM proxy_deepresearch d"
    " JOIN research_run r ON r.upstream_key = d.key WHERE d.state <> 'ended' AND r.completed_at IS NOT NULL"
)
CHATS = "SELECT id, price, state = 'delivered', first_token_at IS NOT NULL FROM proxy_chatturn"
RUNS = "SELECT id, price, state IN ('completed', 'incomplete'), FALSE FROM research_run"
PAID = (
    "SELECT COUNT(*) FROM portal_ledgerentry WHERE kind = 'close' AND settled > 0 AND subject LIKE 'chat:%'"
)
TAG = re.compile(r"tide-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Found:
    """What is judged. `deaths` of the upstream are in unix seconds; `half` was read at half of the load."""

    portal: Portal
    notes: Notes
    deaths: Sequence[float]
    lags: Lags
    base: Reading
    half: Reading
    end: Reading


def faults_of(found: Found) -> list[str]:
    return [
        *(f"{count} x {what}" for what, count in found.notes.wrongs.most_common()),
        *_left_behind(found.base, found.end),
        *_grown(found.half, found.end),
        *_books(found.portal),
        *_without_end(found.portal, found.notes),
        *_left_open(found),
    ]


def orphans_of(portal: Portal) -> str:
    """Places of accounts that only their lease has given back."""
    rows = portal.books.read(ORPHANS)
    return "\n  ".join(
        [f"researches that never ended though their runs did: {len(rows)}", *map(str, rows[:5])]
    )


def _left_behind(base: Reading, end: Reading) -> Iterator[str]:
    for name, count in end.held.items():
        if count:
            yield f"held after all was over: {name} = {count}"
    before = {process.name: process for process in base.processes}
    for process in end.processes:
        yield from _kept(before.get(process.name, process), process)


def _grown(half: Reading, end: Reading) -> Iterator[str]:
    before = {process.name: process.rss_mib for process in half.processes}
    for process in end.processes:
        then = before.get(process.name, process.rss_mib)
        if process.rss_mib > then * MORE_OF_MEMORY + MORE_MIB:
            yield f"{process.name}: memory {then:.0f} -> {process.rss_mib:.0f} MiB in the second half"


def _kept(before: Process, after: Process) -> Iterator[str]:
    for name, most in (("clients", 0), ("upstream", IDLE), ("others", 0)):
        if after.sockets[name] > most:
            yield f"{after.name}: {after.sockets[name]} sockets of {name} are open"
    if after.files > before.files + MORE_FILES:
        yield f"{after.name}: descriptors {before.files} -> {after.files}"
    if after.threads > before.threads + MORE_THREADS:
        yield f"{after.name}: threads {before.threads} -> {after.threads}"


def _books(portal: Portal) -> Iterator[str]:
    if told := portal.fell_out():
        yield f"ledger_check: {told}"
    (kept,) = portal.books.read("SELECT SUM(allowance + own) FROM portal_creditaccount")[0]
    (booked,) = portal.books.read("SELECT SUM(delta) FROM portal_ledgerentry")[0]
    if kept != booked:
        yield f"balances are {kept}, their entries {booked}"
    if twice := portal.books.read(TWICE):
        yield f"booked twice: {twice[:3]}"
    yield from _prices(portal)


def _prices(portal: Portal) -> Iterator[str]:
    """Delivered: the price. Without a word: nothing. What broke off or was left after its first word is
    paid as a stream, and free as a plain answer."""
    closes = portal.books.read("SELECT subject, settled FROM portal_ledgerentry WHERE kind = 'close'")
    settled = {subject.partition(":")[2].replace("-", ""): paid for subject, paid in closes}
    for kind, query in (("chat", CHATS), ("run", RUNS)):
        rows = portal.books.read(query)
        wrong = [
            (identity, price, delivered, begun)
            for identity, price, delivered, begun in rows
            if settled.get(str(identity).replace("-", ""), 0) not in _right(price, delivered, begun)
        ]
        if wrong:
            yield f"{len(wrong)} of {len(rows)} {kind}s have another price: {wrong[:3]}"


def _right(price: int, delivered: bool, begun: bool) -> tuple[int, ...]:
    if delivered:
        return (price,)
    return (0, price) if begun else (0,)


def _without_end(portal: Portal, notes: Notes) -> Iterator[str]:
    rows = (portal.books.read(f"SELECT id FROM {table}") for table in ("research_run", "proxy_chatresponse"))
    known = {str(identity).replace("-", "") for of_table in rows for (identity,) in of_table}
    lost = [identity for identity in notes.promised if identity.removeprefix("resp_") not in known]
    if lost:
        yield f"{len(lost)} of {len(notes.promised)} runs and responses are lost: {lost[:3]}"
    (paid,) = portal.books.read(PAID)[0]
    if paid < notes.told_text and not notes.may_lose:
        yield f"text of {notes.told_text} chats was seen, {paid} are paid"


@dataclass(frozen=True, slots=True)
class Leaving:
    """From the moment at which a caller's side of the connection was shut, or at which the upstream was
    asked all the same, to the moment at which the upstream saw its own connection closed (unix seconds)."""

    since: float
    until: float

    @property
    def took(self) -> float:
        return self.until - self.since

    def told(self, lags: Lags) -> str:
        """With how late everybody was in that time, the portal itself included: that excuses nothing."""
        late = {name: lags.most(name, self.since, self.until) for name in lags.names}
        return f"{self.took:.2f} s (late: " + ", ".join(f"{name} {late[name]:.2f}" for name in late) + ")"


def _left_open(found: Found) -> Iterator[str]:
    """Upstream answers that went on after their caller had left. Taken off is only by how much the upstream
    itself was late to see it at that moment."""
    for kind, leavings in _leavings(found).items():
        leavings.sort(key=lambda leaving: leaving.took)
        middle, last = leavings[len(leavings) // 2].took, leavings[-1].told(found.lags)
        print(f"{len(leavings)} upstreams of {kind} closed after {middle:.2f} s, the last after {last}")
        late = [
            leaving
            for leaving in leavings
            if leaving.took - found.lags.most(UPSTREAM, leaving.since, leaving.until) > CLOSE_SECONDS
        ]
        if late:
            yield f"{len(late)} upstreams of {kind} were closed too late: {late[-1].told(found.lags)}"


def _leavings(found: Found) -> dict[str, list[Leaving]]:
    """By kind of visit. What an upstream that died had open is passed over."""
    by_kind: dict[str, list[Leaving]] = {}
    for asked_at, ended_at, body in _asks(found.portal):
        tag = TAG.search(body)
        kind, left_at = found.notes.left.get(tag[0] if tag else "", ("", 0.0))
        if not kind or any(asked_at <= death <= left_at + CLOSE_SECONDS for death in found.deaths):
            continue
        died_at = min((death for death in found.deaths if death > asked_at), default=float("inf"))
        # Who leaves while a place is looked for is noticed as soon as the upstream is asked.
        leaving = Leaving(max(left_at, asked_at), ended_at or died_at)
        by_kind.setdefault(kind, []).append(leaving)
    return by_kind


def _asks(portal: Portal) -> list[tuple[float, float | None, str]]:
    with closing(sqlite3.connect(f"file:{portal.sandbox.database}?mode=ro", uri=True)) as database:
        return database.execute(
            "SELECT at, ended_at, body FROM web_requests WHERE path = ?", (ASK,)
        ).fetchall()
