"""Makes the database itself refuse any change to what was written in the ledger and the audit log.

The triggers are put back after every migration, since rebuilding a table drops them on SQLite.
TRUNCATE, which passes row triggers by, is refused on PostgreSQL as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("portal_ledgerentry", "portal_auditentry")
REFUSAL = "entries are never changed or deleted"
OPERATIONS = {"sqlite": ("update", "delete"), "postgresql": ("update", "delete", "truncate")}
PRESENT = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    # A trigger that was switched off guards nothing, nor does one of another schema's tables.
    "postgresql": (
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
        " AND tgrelid IN (to_regclass('portal_ledgerentry'), to_regclass('portal_auditentry'))"
    ),
}
FUNCTION = f"""
CREATE OR REPLACE FUNCTION portal_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: {REFUSAL}', TG_TABLE_NAME;
END
$$
"""


def install(using: str = "default") -> None:
    """Put every missing trigger in place, on tables that exist."""
    connection = connections[using]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        wanting = [pair for pair in _missing(connection) if pair[0] in tables]
        if wanting and connection.vendor == "postgresql":
            cursor.execute(FUNCTION)
        for table, operation in wanting:
            cursor.execute(_drop(connection, table, operation))
            cursor.execute(_create(connection, table, operation))


def remove(using: str = "default") -> None:
    """Take the guard away. For tests, which empty every table between them."""
    connection = connections[using]
    with connection.cursor() as cursor:
        for table, operation in _all(connection):
            cursor.execute(_drop(connection, table, operation))


def missing(using: str = "default") -> list[str]:
    """What is not guarded: `update of portal_ledgerentry`, …; empty when all is well."""
    return [f"{operation} of {table}" for table, operation in _missing(connections[using])]


def _all(connection: BaseDatabaseWrapper) -> Iterable[tuple[str, str]]:
    return [(table, operation) for table in TABLES for operation in OPERATIONS[connection.vendor]]


def _missing(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(PRESENT[connection.vendor])
        present = {name for (name,) in cursor.fetchall()}
    return [pair for pair in _all(connection) if _name(*pair) not in present]


def _name(table: str, operation: str) -> str:
    return f"{table}_no_{operation}"


def _drop(connection: BaseDatabaseWrapper, table: str, operation: str) -> str:
    where = f" ON {table}" if connection.vendor == "postgresql" else ""
    return f"DROP TRIGGER IF EXISTS {_name(table, operation)}{where}"


def _create(connection: BaseDatabaseWrapper, table: str, operation: str) -> str:
    head = f"CREATE TRIGGER {_name(table, operation)} BEFORE {operation.upper()} ON {table}"
    if connection.vendor == "postgresql":
        level = "STATEMENT" if operation == "truncate" else "ROW"
        return f"{head} FOR EACH {level} EXECUTE FUNCTION portal_append_only()"
    return f"{head} BEGIN SELECT RAISE(ABORT, '{table}: {REFUSAL}'); END"
