"""What is true after a crash: read from the database with plain SQL, and from the upstream's counters.

Nothing here asks the portal: the judge shares no code with the accused.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.sandbox_server import Counts

TERMINAL = {"completed", "failed", "incomplete", "cancelled"}
UNITS = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    state: str
    question: str
    price: int
    submissions: int
    upstream_key: str
    notes: list[str]
    backend: str


class Books:
    """The portal's database, seen from outside."""

    def __init__(self, where: Path | str) -> None:
        self.where = where

    def read(self, query: str) -> list[tuple[Any, ...]]:
        if isinstance(self.where, Path):
            with closing(sqlite3.connect(f"file:{self.where}?mode=ro", uri=True, timeout=20)) as connection:
                return connection.execute(query).fetchall()
        with psycopg.connect(self.where) as pg:
            return pg.execute(query.encode()).fetchall()

    def runs(self) -> list[Row]:
        found = self.read(
            "SELECT id, state, question, price, submissions, upstream_key, notes, backend FROM research_run"
        )
        return [
            Row(
                str(id_).replace("-", ""), state, question, price, submissions,
                str(key).replace("-", ""), notes if isinstance(notes, list) else json.loads(notes), backend,
            )
            for id_, state, question, price, submissions, key, notes, backend in found
        ]  # fmt: skip

    def wait_for_the_end(self, expected: int, seconds: float) -> list[Row]:
        """All runs, once there are `expected` and each has ended; fails by name when that does not come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rows = self.runs()
            if len(rows) == expected and all(row.state in TERMINAL for row in rows):
                return rows
            time.sleep(0.1)
        raise AssertionError(
            f"not all of {expected} runs ended: {[(row.id, row.state) for row in self.runs()]}"
        )

    def check_money(self, rows: Sequence[Row]) -> None:
        """Each run has one reserve and one close, and every balance is the sum of its entries."""
        entries = self.read(
            "SELECT subject, kind, delta, settled, released FROM portal_ledgerentry WHERE subject <> ''"
        )
        by_run: dict[str, dict[str, tuple[int, int | None, int | None]]] = {row.id: {} for row in rows}
        for subject, kind, delta, settled, released in entries:
            run = by_run[subject.removeprefix("run:").replace("-", "")]
            assert kind not in run, f"{kind} twice for {subject}"
            run[kind] = (delta, settled, released)
        for row in rows:
            kept = row.price if row.state in ("completed", "incomplete") else 0
            assert by_run[row.id] == {
                "reserve": (-row.price, None, None),
                "close": (row.price - kept, kept, row.price - kept),
            }, row
        (reserved,) = self.read("SELECT SUM(reserved) FROM portal_creditaccount")[0]
        (cached,) = self.read("SELECT SUM(allowance + own) FROM portal_creditaccount")[0]
        (booked,) = self.read("SELECT SUM(delta) FROM portal_ledgerentry")[0]
        assert reserved == 0
        assert cached == booked
        (negative,) = self.read("SELECT COUNT(*) FROM portal_creditaccount WHERE allowance < 0 OR own < 0")[0]
        assert negative == 0

    def check_places(self) -> None:
        """No account's place is held for a research that has ended."""
        held = self.read("SELECT COUNT(*) FROM proxy_deepresearch WHERE held_until IS NOT NULL")
        assert held == [(0,)]

    def check_events(self) -> None:
        gaps = self.read(
            "SELECT run_id FROM research_runevent GROUP BY run_id"
            " HAVING COUNT(*) <> MAX(seq) OR MIN(seq) <> 1"
        )
        assert gaps == []


def check_upstream(
    rows: Sequence[Row], counts: Counts, *, deaths_while_sending: int, passed_on: Sequence[str] = ()
) -> None:
    """One job per key; never more submissions than runs, but for what a death may add, told in its run.

    `passed_on` are the questions of the runs that another portal has made for `responses`.
    """
    resent = 0
    for row in rows:
        keys = {
            str(submission.idempotency_key).replace("-", ""): submission for submission in counts.submissions
        }
        if row.backend.startswith("sonar"):
            assert keys[row.upstream_key].accepted <= 1, row
            continue
        if row.backend in ("web", "responses"):
            made = counts.web_entries(row.question) if row.backend == "web" else passed_on.count(row.question)
            assert made <= 1, row
            continue
        seen = counts.agent_submissions(row.question)
        told = any("sent once more" in note for note in row.notes)
        assert seen <= 1 + told, f"{seen} submissions of {row}"
        resent += seen > 1
    assert resent <= deaths_while_sending
