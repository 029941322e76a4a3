"""PostgreSQL's side of `rows`: several statements in one trip, each prepared once for each connection.

What is prepared is read and planned once. Its name is made of its text: it means the same to everybody.
Behind a pooler that changes connections between transactions a name may be missing, or be there already.
The first time that happens, this process speaks plain text from then on, and the transaction that met it,
which has done nothing, is done once more. So only what can be done again prepares anything (`with_prepared`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:  # its start does not wait for a driver that SQLite has no use for
    from psycopg import Connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Rows = Sequence[Sequence[Any]]
NOT_KEPT = frozenset({"26000", "42P05", "0A000"})
"""There is no such statement; there is one already; its tables are not what they were."""
IDLE, IN_TRANSACTION = 0, 2
"""Of libpq's PGTransactionStatusType."""
PLANS = ("SET LOCAL plan_cache_mode = force_generic_plan", "SET LOCAL enable_seqscan = off")
"""A plan is made once, for any values: else there is one for each list that is shorter than PostgreSQL takes
for usual. It goes by the indexes, whatever the tables hold at that moment: they will hold more."""


class Asked(NamedTuple):
    """A statement with `%s` for each of its values. One that `varies` has another text each time."""

    sql: str
    values: Sequence[Any]
    varies: bool = False


class _Here(threading.local):
    """Whether what this thread does now may be done again."""

    prepares = False


_here = _Here()
_speaks_plainly = False
_prepared: WeakKeyDictionary[Connection[Any], set[str] | None] = WeakKeyDictionary()
# The names that each connection knows; None of one that is in doubt, which is spoken to in plain text.


def may_begin() -> bool:
    """Whether the server has not heard yet of the transaction that is open for Django."""
    database = connections[DEFAULT_DB_ALIAS]
    return database.in_atomic_block and _status(database) == IDLE


def may_end() -> bool:
    """Whether the transaction ends with the innermost block."""
    database = connections[DEFAULT_DB_ALIAS]
    if not database.in_atomic_block or database.savepoint_ids or not database.commit_on_exit:
        return False
    return not database.needs_rollback and _status(database) == IN_TRANSACTION


def send(asked: Sequence[Asked], *, begins: bool = False, ends: bool = False) -> list[Rows]:
    """The rows that each brings; the transaction's BEGIN goes before them, or its COMMIT behind."""
    database = connections[DEFAULT_DB_ALIAS]  # once: what stands for it elsewhere looks for it each time
    if begins:
        # Else the driver sends a BEGIN of its own, and waits for it. What is open it asks the server.
        database.connection.autocommit = True
    known = _known(database)
    fresh = {} if known is None else {one.sql: _name(one.sql) for one in asked if _is_new(one, known)}
    before = [
        *(["BEGIN"] if begins else []),
        *(PLANS if known is not None else []),
        *(_preparing(name, sql) for sql, name in fresh.items()),
    ]
    texts = [one.sql if known is None or one.varies else _executing(one) for one in asked]
    values = [value for one in asked for value in one.values]
    try:
        found = _answers(database, before, texts, ["COMMIT"] if ends else [], values)
    except DatabaseError:
        if fresh:  # how many of them it knows now is anybody's guess
            _prepared[database.connection] = None
        raise
    if known is not None:
        known.update(fresh.values())
    return found


def with_prepared(work: Callable[[], Result]) -> Result:
    """The result of `work`, a transaction of its own, whose statements are prepared. Where they turn out not
    to be kept it is done once more, in plain text."""
    global _speaks_plainly
    spoke_plainly = _speaks_plainly  # another thread may find out meanwhile
    _here.prepares = True
    try:
        return work()
    except DatabaseError as error:
        if spoke_plainly or getattr(error.__cause__, "sqlstate", None) not in NOT_KEPT:
            raise
        _speaks_plainly = True
        log.warning("prepared statements are not kept by this database: %s", error.__cause__)
    finally:
        _here.prepares = False
    return work()


def _answers(
    database: BaseDatabaseWrapper, before: list[str], texts: list[str], after: list[str], values: list[Any]
) -> list[Rows]:
    found: list[Rows] = []
    with database.cursor() as wrapped:
        wrapped.execute(";\n".join([*before, *texts, *after]), values)
        cursor = wrapped.cursor  # all has come: what is read of it now raises no error of the database
        for _ in before:
            cursor.nextset()
        for _ in texts:
            found.append(cursor.fetchall() if cursor.pgresult.nfields else ())
            cursor.nextset()
    return found


def _status(database: BaseDatabaseWrapper) -> int:
    return int(database.connection.pgconn.transaction_status)


def _known(database: BaseDatabaseWrapper) -> set[str] | None:
    """The names that may be used; None for plain text."""
    if _speaks_plainly or not _here.prepares or not database.in_atomic_block:
        return None
    return _prepared.setdefault(database.connection, set())


def _is_new(asked: Asked, known: set[str]) -> bool:
    return not asked.varies and _name(asked.sql) not in known


@lru_cache(maxsize=256)
def _name(sql: str) -> str:
    return f"sonde_{blake2b(sql.encode(), digest_size=12).hexdigest()}"


def _preparing(name: str, sql: str) -> str:
    first, *others = sql.split("%s")
    numbered = (f"${place}{part}" for place, part in zip(count(1), others, strict=False))
    return f"PREPARE {name} AS {first}{''.join(numbered)}"


def _executing(asked: Asked) -> str:
    marks = ", ".join(["%s"] * len(asked.values))
    return f"EXECUTE {_name(asked.sql)}({marks})" if marks else f"EXECUTE {_name(asked.sql)}"
