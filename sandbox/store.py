"""Jobs, counters and settings in one SQLite file, so that they outlive a kill.

WAL with synchronous=NORMAL: a killed process loses nothing, a committed write costs no fsync.
One connection per thread; every statement is short and commits by itself.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sandbox.markers import Api

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, api TEXT NOT NULL, account TEXT NOT NULL,
    idempotency_key TEXT, fingerprint TEXT NOT NULL, question TEXT NOT NULL, body TEXT NOT NULL,
    created REAL NOT NULL, seconds REAL NOT NULL, polls INTEGER NOT NULL DEFAULT 0,
    cancels INTEGER NOT NULL DEFAULT 0, cancelled_at REAL, cancelled_poll INTEGER);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_key ON jobs (api, account, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_by_account ON jobs (api, account, seq);
CREATE TABLE IF NOT EXISTS submissions (
    api TEXT NOT NULL, idempotency_key TEXT NOT NULL, question TEXT NOT NULL,
    received INTEGER NOT NULL DEFAULT 0, accepted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (api, idempotency_key, question)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tallies (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=10000;"


@dataclass(frozen=True, slots=True)
class Job:
    """One accepted run. `created` and `cancelled_at` are unix seconds, `seconds` its planned length;
    `cancelled_poll` is the number of fetches before the cancel."""

    seq: int
    id: str
    api: Api
    account: str
    idempotency_key: str | None
    fingerprint: str
    question: str
    body: str
    created: float
    seconds: float
    polls: int = 0
    cancels: int = 0
    cancelled_at: float | None = None
    cancelled_poll: int | None = None


_COLUMNS = ", ".join(column.name for column in fields(Job))
_NEW = ("id", "api", "account", "idempotency_key", "fingerprint", "question", "body", "created", "seconds")


class Store:
    """The only door to the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.add_tables(_SCHEMA)

    def add_tables(self, schema: str) -> None:
        """Makes tables that are not there yet; `clear` empties all of them."""
        self._connection().executescript(schema)

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, isolation_level=None, timeout=10)
            found.executescript(_PRAGMAS)
            self._local.connection = found
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside commits together, or not at all."""
        connection = self._connection()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def close(self) -> None:
        """Closes the calling thread's connection; the next call opens another."""
        self._connection().close()
        del self._local.connection

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """One statement that commits by itself."""
        # Always fetched whole: an UPDATE … RETURNING commits only when its last row was read.
        return self._connection().execute(sql, values).fetchall()

    def _job(self, sql: str, values: Sequence[object]) -> Job | None:
        rows = self.rows(sql, values)
        return Job(*rows[0]) if rows else None

    # Submissions and jobs.

    def receive(self, api: str, key: str | None, question: str) -> int:
        """Counts one submission that reached us; the answer is which attempt it is, from 1."""
        rows = self.rows(
            "INSERT INTO submissions (api, idempotency_key, question, received) VALUES (?, ?, ?, 1)"
            " ON CONFLICT DO UPDATE SET received = received + 1 RETURNING received",
            (api, key or "", question),
        )
        return int(rows[0][0])

    def accept(self, job: Job) -> Job:
        """Stores a new job (its `seq` is ignored) and counts it as accepted, both or neither."""
        with self.transaction() as connection:
            marks = ", ".join("?" * len(_NEW))
            row = connection.execute(
                f"INSERT INTO jobs ({', '.join(_NEW)}) VALUES ({marks}) RETURNING {_COLUMNS}",
                [getattr(job, name) for name in _NEW],
            ).fetchall()[0]
            connection.execute(
                "UPDATE submissions SET accepted = accepted + 1"
                " WHERE (api, idempotency_key, question) = (?, ?, ?)",
                (job.api, job.idempotency_key or "", job.question),
            )
        return Job(*row)

    def by_key(self, api: Api, account: str, key: str) -> Job | None:
        return self._job(
            f"SELECT {_COLUMNS} FROM jobs WHERE api = ? AND account = ? AND idempotency_key = ?",
            (api, account, key),
        )

    def find(self, api: Api, account: str, job_id: str) -> Job | None:
        return self._job(
            f"SELECT {_COLUMNS} FROM jobs WHERE id = ? AND api = ? AND account = ?", (job_id, api, account)
        )

    def poll(self, api: Api, account: str, job_id: str) -> Job | None:
        """The job with this fetch counted."""
        return self._job(
            "UPDATE jobs SET polls = polls + 1 WHERE id = ? AND api = ? AND account = ?"
            f" RETURNING {_COLUMNS}",
            (job_id, api, account),
        )

    def count_cancel(self, account: str, job_id: str) -> Job | None:
        return self._job(
            f"UPDATE jobs SET cancels = cancels + 1 WHERE id = ? AND api = 'agent' AND account = ?"
            f" RETURNING {_COLUMNS}",
            (job_id, account),
        )

    def cancel(self, job_id: str, now: float) -> None:
        """Remembers the first accepted cancel."""
        self.rows(
            "UPDATE jobs SET cancelled_at = ?, cancelled_poll = polls WHERE id = ? AND cancelled_at IS NULL",
            (now, job_id),
        )

    def page(self, api: Api, account: str, before: int | None, limit: int) -> list[Job]:
        """Newest first, those older than the job numbered `before`."""
        rows = self.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE api = ? AND account = ? AND seq < ?"
            " ORDER BY seq DESC LIMIT ?",
            (api, account, before if before is not None else 2**62, limit),
        )
        return [Job(*row) for row in rows]

    # Counters and settings.

    def tally(self, name: str) -> int:
        """Counts one call of that name; the answer is which one it is, from 1."""
        rows = self.rows(
            "INSERT INTO tallies VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1 RETURNING count",
            (name,),
        )
        return int(rows[0][0])

    def tallies(self) -> dict[str, int]:
        return dict(self.rows("SELECT name, count FROM tallies"))

    def submissions(self) -> list[tuple[str, str, str, int, int]]:
        """(api, idempotency key or "", question, received, accepted)."""
        found: list[Any] = self.rows(
            "SELECT api, idempotency_key, question, received, accepted FROM submissions"
        )
        return found

    def jobs(self, limit: int, before: int | None = None) -> list[Job]:
        """All accounts', newest first."""
        rows = self.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE seq < ? ORDER BY seq DESC LIMIT ?",
            (before if before is not None else 2**62, limit),
        )
        return [Job(*row) for row in rows]

    def totals(self) -> dict[str, int]:
        row = self.rows("SELECT count(*), coalesce(sum(polls), 0), coalesce(sum(cancels), 0) FROM jobs")[0]
        return dict(zip(("jobs", "polls", "cancels"), row, strict=True))

    def setting(self, name: str) -> str | None:
        rows = self.rows("SELECT value FROM settings WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def set(self, name: str, value: str) -> None:
        self.rows(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def clear(self) -> None:
        """Forgets everything, settings included."""
        with self.transaction() as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in found:
                if not table.startswith("sqlite_"):
                    connection.execute(f"DELETE FROM {table}")
