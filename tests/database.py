"""What the tests need of the database beyond pytest-django.

Tests with real transactions leave rows behind. Django would empty every table, which the triggers of the
ledger forbid, and make content types, permissions and what the migrations planted anew, which takes longer
than most tests. Here the database is put back as the migrations left it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from django.db import connection
from django.test import TransactionTestCase

# What the migrations left: the whole file on SQLite, the rows of each table that has some on PostgreSQL.
_file = sqlite3.connect(":memory:", check_same_thread=False)
_rows: dict[str, bytes] = {}


def keep_what_is_there() -> None:
    """Remember the database as it is now, for `put_back`."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(connection.settings_dict["NAME"])) as source:
            source.backup(_file)
        return
    with connection.cursor() as cursor:
        for table in _tables():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                rows = b"".join(bytes(piece) for piece in copy)
            if rows:
                _rows[table] = rows


def put_back(case: object = None) -> None:
    """Make the database again what it was when it was kept; ids go on where they are on PostgreSQL."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=20)) as target:
            target.execute("PRAGMA synchronous=OFF")
            _file.backup(target)
        return
    connection.ensure_connection()
    raw = connection.connection
    with raw.transaction(), raw.cursor() as cursor:
        # No trigger fires, neither the guard's nor those of foreign keys.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("; ".join(f'DELETE FROM "{table}"' for table in _tables()))
        for table, rows in _rows.items():
            with cursor.copy(f'COPY "{table}" FROM STDIN') as copy:
                copy.write(rows)


def _tables() -> list[str]:
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
    return [name for name in names if name != "django_migrations"]


def let_tests_put_the_database_back() -> None:
    """Do it in place of Django's flush."""
    case: Any = TransactionTestCase
    case._fixture_teardown = put_back
