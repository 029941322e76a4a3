"""What is wrong after a mixed load: with what is held, with the books, with what callers were told."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from bench.mixed.gauges import Process, Reading
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


def faults_of(
    portal: Portal, notes: Notes, deaths: Sequence[float], base: Reading, half: Reading, end: Reading
) -> list[str]:
    return [
        *(f"{count} x {what}" for what, count in notes.wrongs.most_common()),
        *_left_behind(base, end),
        *_grown(half, end),
        *_books(portal),
        *_without_end(portal, notes),
        *_left_open(portal, notes, deaths),
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


def _left_open(portal: Portal, notes: Notes, deaths: Sequence[float]) -> Iterator[str]:
    """Upstream answers that went on after their caller had left. What an upstream that died had open is
    passed over."""
    by_kind: dict[str, list[float]] = {}
    for asked_at, ended_at, body in _asks(portal):
        found = TAG.search(body)
        kind, left_at = notes.left.get(found[0] if found else "", ("", 0.0))
        if not kind or any(asked_at <= death <= left_at + CLOSE_SECONDS for death in deaths):
            continue
        died_at = min((death for death in deaths if death > asked_at), default=float("inf"))
        # Who leaves while a place is looked for is noticed as soon as the upstream is asked.
        by_kind.setdefault(kind, []).append((ended_at or died_at) - max(left_at, asked_at))
    for kind, took in by_kind.items():
        took.sort()
        middle, most = took[len(took) // 2], took[-1]
        told = f"{len(took)} upstreams of {kind} closed after {middle:.2f} s, the last after {most:.2f} s"
        print(told)
        if most > CLOSE_SECONDS + notes.lateness:
            yield told


def _asks(portal: Portal) -> list[tuple[float, float | None, str]]:
    with closing(sqlite3.connect(f"file:{portal.sandbox.database}?mode=ro", uri=True)) as database:
        return database.execute(
            "SELECT at, ended_at, body FROM web_requests WHERE path = ?", (ASK,)
        ).fetchall()
