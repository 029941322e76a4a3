"""What the web backend remembers, in the sandbox's file: accounts, entries, requests, uploads, messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sandbox.store import Store
from sandbox.web.accounts import read_traits

_SCHEMA = """
CREATE TABLE IF NOT EXISTS web_accounts (
    name TEXT PRIMARY KEY, serial INTEGER NOT NULL DEFAULT 0, day INTEGER NOT NULL, pro INTEGER NOT NULL,
    research INTEGER NOT NULL, asks INTEGER NOT NULL DEFAULT 0, orders TEXT NOT NULL DEFAULT '{}')
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS web_entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, thread TEXT NOT NULL,
    account TEXT NOT NULL, question TEXT NOT NULL, body TEXT NOT NULL, model TEXT NOT NULL,
    fate TEXT NOT NULL, created REAL NOT NULL, seconds REAL NOT NULL, reconnects INTEGER NOT NULL DEFAULT 0,
    stops INTEGER NOT NULL DEFAULT 0, stopped_at REAL, deleted_at REAL);
CREATE INDEX IF NOT EXISTS web_entries_by_thread ON web_entries (thread, seq);
CREATE TABLE IF NOT EXISTS web_requests (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    account TEXT NOT NULL, headers TEXT NOT NULL, body TEXT NOT NULL, status INTEGER, entry TEXT,
    ended_at REAL, ending TEXT, events INTEGER);
CREATE TABLE IF NOT EXISTS web_uploads (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, filename TEXT NOT NULL, content_type TEXT NOT NULL,
    size INTEGER NOT NULL, form TEXT NOT NULL, received INTEGER, digest TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS web_messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, topic TEXT NOT NULL, message TEXT NOT NULL);
"""
_KEPT_REQUESTS = 50_000


@dataclass(frozen=True, slots=True)
class Account:
    """Counters of one account. `orders` is what the control door told it to do, over what its name says."""

    name: str
    serial: int
    day: int
    pro: int
    research: int
    asks: int
    orders: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One accepted ask. `id` is its backend_uuid, `thread` the id of the first entry of its thread, `model`
    the preference that answers, `fate` what becomes of it whatever its markers say ("" for nothing special).
    Times are unix seconds, `seconds` the planned length."""

    seq: int
    id: str
    thread: str
    account: str
    question: str
    body: str
    model: str
    fate: str
    created: float
    seconds: float
    reconnects: int = 0
    stops: int = 0
    stopped_at: float | None = None
    deleted_at: float | None = None


_ENTRY = ", ".join(column.name for column in fields(Entry))
_NEW = ("id", "thread", "account", "question", "body", "model", "fate", "created", "seconds")
_ACCOUNT = ", ".join(column.name for column in fields(Account))


def _account(row: tuple[Any, ...]) -> Account:
    name, serial, day, pro, research, asks, orders = row
    return Account(name, serial, day, pro, research, asks, json.loads(orders))


class WebStore:
    """The web's tables in the sandbox's file. Every method is one short transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.add_tables(_SCHEMA)

    # Accounts.

    def account(self, name: str, day: int) -> Account:
        """The account, made or refilled on its first call of a day (days since the epoch)."""
        rows = self._store.rows(
            f"SELECT {_ACCOUNT} FROM web_accounts WHERE name = ? AND day = ?", (name, day)
        )
        if not rows:
            pro, research = read_traits(name).quota()
            rows = self._store.rows(
                "INSERT INTO web_accounts (name, day, pro, research) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET day = excluded.day, pro = excluded.pro,"
                f" research = excluded.research RETURNING {_ACCOUNT}",
                (name, day, pro, research),
            )
        return _account(rows[0])

    def rotate(self, name: str) -> int:
        """The serial of a new token value."""
        rows = self._store.rows(
            "UPDATE web_accounts SET serial = serial + 1 WHERE name = ? RETURNING serial", (name,)
        )
        return int(rows[0][0])

    def order(self, name: str, pro: int | None, research: int | None, orders: dict[str, Any]) -> None:
        self._store.rows(
            "UPDATE web_accounts SET pro = coalesce(?, pro), research = coalesce(?, research), orders = ?"
            " WHERE name = ?",
            (pro, research, json.dumps(orders), name),
        )

    def accounts(self) -> list[Account]:
        rows = self._store.rows(f"SELECT {_ACCOUNT} FROM web_accounts ORDER BY name")
        return [_account(row) for row in rows]

    # Entries.

    def accept(self, entry: Entry, spends: str | None) -> bool:
        """Stores a new entry, counts it, and takes one from the quota that it `spends` (pro or research).

        False, and only counted, when that quota is empty.
        """
        with self._store.transaction() as connection:
            left = f" AND {spends} > 0" if spends else ""
            less = f", {spends} = {spends} - 1" if spends else ""
            taken = connection.execute(
                f"UPDATE web_accounts SET asks = asks + 1{less} WHERE name = ?{left}", (entry.account,)
            )
            if spends and taken.rowcount == 0:
                return False
            marks = ", ".join("?" * len(_NEW))
            connection.execute(
                f"INSERT INTO web_entries ({', '.join(_NEW)}) VALUES ({marks})",
                [getattr(entry, name) for name in _NEW],
            )
            connection.execute(
                "UPDATE submissions SET accepted = accepted + 1"
                " WHERE (api, idempotency_key, question) = ('web', '', ?)",
                (entry.question,),
            )
        return True

    def entry(self, entry_id: str, account: str) -> Entry | None:
        """The entry, if it is this account's and was not deleted."""
        rows = self._store.rows(
            f"SELECT {_ENTRY} FROM web_entries WHERE id = ? AND account = ? AND deleted_at IS NULL",
            (entry_id, account),
        )
        return Entry(*rows[0]) if rows else None

    def count(self, column: str, entry_id: str) -> int:
        """Counts one call on an entry (`reconnects` or `stops`); the answer is which one it is, from 1."""
        rows = self._store.rows(
            f"UPDATE web_entries SET {column} = {column} + 1 WHERE id = ? RETURNING {column}", (entry_id,)
        )
        return int(rows[0][0])

    def stop(self, entry_id: str, now: float) -> None:
        self._store.rows(
            "UPDATE web_entries SET stopped_at = ? WHERE id = ? AND stopped_at IS NULL", (now, entry_id)
        )

    def delete(self, entry: Entry, now: float) -> None:
        """Deletes the whole thread."""
        self._store.rows("UPDATE web_entries SET deleted_at = ? WHERE thread = ?", (now, entry.thread))

    def questions(self, entry: Entry) -> tuple[str, ...]:
        """What was asked in the entry's thread before it."""
        rows = self._store.rows(
            "SELECT question FROM web_entries WHERE thread = ? AND seq < (SELECT seq FROM web_entries"
            " WHERE id = ?) ORDER BY seq",
            (entry.thread, entry.id),
        )
        return tuple(row[0] for row in rows)

    def entries(self, limit: int, before: int | None) -> list[Entry]:
        """All accounts', newest first."""
        rows = self._store.rows(
            f"SELECT {_ENTRY} FROM web_entries WHERE seq < ? ORDER BY seq DESC LIMIT ?",
            (before if before is not None else 2**62, limit),
        )
        return [Entry(*row) for row in rows]

    # Requests.

    def open_request(
        self, at: float, method: str, path: str, account: str, headers: dict[str, str], body: str
    ) -> int:
        """Remembers a request that came in; the oldest are forgotten beyond fifty thousand."""
        rows = self._store.rows(
            "INSERT INTO web_requests (at, method, path, account, headers, body) VALUES (?, ?, ?, ?, ?, ?)"
            " RETURNING seq",
            (at, method, path, account, json.dumps(headers), body),
        )
        seq = int(rows[0][0])
        if seq % 1000 == 0:
            self._store.rows("DELETE FROM web_requests WHERE seq <= ?", (seq - _KEPT_REQUESTS,))
        return seq

    def close_request(
        self, seq: int, status: int, entry: str | None, at: float, ending: str, events: int | None
    ) -> None:
        self._store.rows(
            "UPDATE web_requests SET status = ?, entry = ?, ended_at = ?, ending = ?, events = ?"
            " WHERE seq = ?",
            (status, entry, at, ending, events, seq),
        )

    def requests(self, path: str, limit: int, before: int | None) -> list[dict[str, Any]]:
        """Newest first; a `path` ending in `*` means all that begin so, an empty one all."""
        names = ("seq", "at", "method", "path", "account", "headers", "body", "status", "entry", "ended_at",
                 "ending", "events")  # fmt: skip
        rows = self._store.rows(
            f"SELECT {', '.join(names)} FROM web_requests WHERE seq < ? AND path GLOB ?"
            " ORDER BY seq DESC LIMIT ?",
            (before if before is not None else 2**62, path or "*", limit),
        )
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [{**row, "headers": json.loads(row["headers"])} for row in found]

    # Uploads and messages.

    def add_upload(self, values: Sequence[object]) -> None:
        """(id, account, filename, content type, size, form as JSON)."""
        self._store.rows(
            "INSERT INTO web_uploads (id, account, filename, content_type, size, form)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )

    def receive_upload(self, upload: str, received: int, digest: str) -> None:
        self._store.rows(
            "UPDATE web_uploads SET received = ?, digest = ? WHERE id = ?", (received, digest, upload)
        )

    def uploads(self, upload: str = "") -> list[dict[str, Any]]:
        """One upload, or all."""
        names = ("id", "account", "filename", "content_type", "size", "form", "received", "digest")
        rows = self._store.rows(
            f"SELECT {', '.join(names)} FROM web_uploads WHERE ? IN ('', id) ORDER BY id", (upload,)
        )
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [{**row, "form": json.loads(row["form"])} for row in found]

    def add_message(self, at: float, topic: str, message: dict[str, Any]) -> None:
        self._store.rows(
            "INSERT INTO web_messages (at, topic, message) VALUES (?, ?, ?)", (at, topic, json.dumps(message))
        )

    def messages(self, topic: str) -> list[dict[str, Any]]:
        """In order of arrival; of one topic, or of all."""
        rows = self._store.rows(
            "SELECT at, message FROM web_messages WHERE ? IN ('', topic) ORDER BY seq", (topic,)
        )
        return [{"at": at, **json.loads(message)} for at, message in rows]
