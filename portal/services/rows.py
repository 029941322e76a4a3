"""Reading and writing rows without the ORM's composing: for doors that hundreds pass at once.

The ORM composes SQL anew for each call, and each call is a trip to the database. Here a statement is
composed once for each kind of row, and PostgreSQL gets several in one trip; rows come as one JSON text, so
that a statement stays the same however many there are. What a field stores, and how it is read, is the
field's own affair here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
from django.db import connection
from django.db.models import (
    BinaryField,
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    ForeignKey,
    IntegerField,
    JSONField,
    Model,
    TextField,
    UUIDField,
)

from portal.services import trips
from portal.services.trips import Asked

AS_THEY_ARE = (CharField, TextField, BooleanField)
"""Fields that store the values that we put into them; others are asked."""
ON_POSTGRESQL_TOO = (IntegerField, DateTimeField, UUIDField)
"""What PostgreSQL reads out of JSON as we write it there."""
Row = TypeVar("Row", bound=Model)


class Statement(Protocol):
    """One statement, and what is read of its answer."""

    def parts(self) -> list[Asked]:
        """SQL and values: one on PostgreSQL, one or more on SQLite."""

    def read(self, rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> Any:
        """The result, of what came back and, on SQLite, how many rows each part changed."""


def run(*statements: Statement | None) -> list[Any]:
    """Run them in order and give the result of each; in one trip where that can be. None is left out,
    and its result is None."""
    return _run(statements)


def begin(*statements: Statement | None) -> list[Any]:
    """`run`, as the first thing in a transaction, whose BEGIN goes along where that can be."""
    return _run(statements, begins=_is_postgresql() and trips.may_begin())


def end(*statements: Statement | None) -> list[Any]:
    """`run`, as the last thing in a transaction, whose COMMIT goes along where that can be. Nothing that
    may fail is done after it: the end of the block finds all of it over."""
    return _run(statements, ends=_is_postgresql() and trips.may_end())


def _run(statements: Sequence[Statement | None], *, begins: bool = False, ends: bool = False) -> list[Any]:
    wanted = [statement for statement in statements if statement is not None]
    if not wanted and not ends:
        return [None] * len(statements)
    if _is_postgresql():
        answers = trips.send([statement.parts()[0] for statement in wanted], begins=begins, ends=ends)
        found = [statement.read(rows, ()) for statement, rows in zip(wanted, answers, strict=True)]
    else:
        found = _in_turn(wanted)
    results = iter(found)
    return [None if statement is None else next(results) for statement in statements]


def _in_turn(statements: Sequence[Statement]) -> list[Any]:
    results = []
    with connection.cursor() as cursor:
        for statement in statements:
            rows: list[Any] = []
            counts = []
            parts = statement.parts()
            if isinstance(statement, Insert):
                cursor.executemany(parts[0].sql, [part.values for part in parts])
                parts = []
            for part in parts:
                cursor.execute(part.sql, part.values)
                rows += cursor.fetchall() if cursor.description else []
                counts.append(cursor.rowcount)
            results.append(statement.read(rows, counts))
    return results


@dataclass(frozen=True, slots=True)
class Select:
    """All rows of `model` that `tail` asks for: `WHERE …`, with `%s` for each of `values`."""

    model: type[Model]
    tail: str
    values: Sequence[Any] = ()

    def parts(self) -> list[Asked]:
        return [Asked(f"{_select(self.model)} {self.tail}", self.values)]

    def read(self, rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> list[Any]:
        return [_loaded(self.model, row) for row in rows]


@dataclass(frozen=True, slots=True)
class Plain:
    """A question whose answer needs no model: its rows are pairs, or whatever it asks for."""

    sql: str
    values: Sequence[Any] = ()
    varies: bool = False
    """Whether its text is another one each time."""

    def parts(self) -> list[Asked]:
        return [Asked(self.sql, self.values, self.varies)]

    def read(self, rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> list[Any]:
        return list(rows)


@dataclass(frozen=True, slots=True)
class Insert:
    """New rows of one model, in order: of each what `_fields` hold. Their generated ids are not read back.

    Where a row with the same primary key stands, what `replaces` names is changed in it; without that it
    is the database's error.
    """

    model: type[Model]
    rows: Sequence[Sequence[Any]]
    replaces: tuple[str, ...] = ()

    def parts(self) -> list[Asked]:
        columns, sql = _columns(self.model), _insert(self.model, self.replaces)
        rows = columns.written(self.rows)
        if _is_postgresql():
            return [Asked(sql, [columns.as_json(rows)])]
        return [Asked(sql, row) for row in rows]

    def read(self, rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Update:
    """In each row of `model` set what `changes` says for its primary key, if it is as `where` says. All
    changes name the same fields. Its result are the keys of the rows that were so."""

    model: type[Model]
    changes: Mapping[Any, Mapping[str, Any]]
    where: Mapping[str, Any] = field(default_factory=dict)

    def parts(self) -> list[Asked]:
        names = tuple(next(iter(self.changes.values())))
        columns, sql = _columns(self.model, ("pk", *names)), _update(self.model, names, tuple(self.where))
        (tests,) = _columns(self.model, tuple(self.where)).written([[*self.where.values()]])
        rows = columns.written([(key, *change.values()) for key, change in self.changes.items()])
        if _is_postgresql():
            return [Asked(sql, [columns.as_json(rows), *tests])]
        return [Asked(sql, [*row[1:], row[0], *tests]) for row in rows]

    def read(self, rows: Sequence[Sequence[Any]], counts: Sequence[int]) -> set[Any]:
        if _is_postgresql():
            return {key for (key,) in rows}
        return {key for key, count in zip(self.changes, counts, strict=True) if count}


def insert(rows: Sequence[Model]) -> Insert | None:
    """Nothing to run for no rows."""
    if not rows:
        return None
    names = [field.attname for field in _fields(type(rows[0]))]
    return Insert(type(rows[0]), [[getattr(row, name) for name in names] for row in rows])


def insert_values(
    model: type[Model], rows: Sequence[Mapping[str, Any]], replaces: tuple[str, ...] = ()
) -> Insert | None:
    """The same without an object for each row: a row is what its columns hold (`user_id`, not `user`), and
    has the default in those that it does not name."""
    defaults, made = _defaults(model)
    values = []
    for row in rows:
        fresh = {name: make() for name, make in made.items() if name not in row}
        values.append(list({**defaults, **fresh, **row}.values()))
    return Insert(model, values, replaces) if rows else None


def update(model: type[Model], changes: Mapping[Any, Mapping[str, Any]], **where: Any) -> Update | None:
    """Nothing to run for no changes."""
    return Update(model, changes, where) if changes else None


def among(column: str, values: Collection[object]) -> tuple[str, list[Any]]:
    """That `column` is one of `values`, and what is to be given for that: on PostgreSQL the text is the
    same for any number of them."""
    if _is_postgresql():
        return f"{column} = ANY(%s)", [[*values]]
    return f"{column} IN ({marks(values)})", [*values]


def marks(values: Collection[object]) -> str:
    """Of an IN list; the database takes an empty one only as NULL."""
    return ", ".join(["%s"] * len(values)) or "NULL"


@cache
def for_update() -> str:
    """Locks what is read. SQLite, whose transactions are IMMEDIATE, has the whole database.

    Its key is left free, here as in every lock of the house: at the commit of a row that refers to it
    PostgreSQL looks whether it is there, and would wait with all that it has locked.
    """
    return " FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""


@cache
def _is_postgresql() -> bool:
    return bool(connection.vendor == "postgresql")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns in the order of a row's values, each with what makes a value the column's."""

    names: tuple[str, ...]
    writers: tuple[Callable[[Any], Any] | None, ...]

    def written(self, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [
            [value if write is None else write(value) for write, value in zip(self.writers, row, strict=True)]
            for row in rows
        ]

    def as_json(self, rows: Sequence[Sequence[Any]]) -> str:
        objects = [dict(zip(self.names, row, strict=True)) for row in rows]
        return msgspec.json.encode(objects).decode()


@cache
def _columns(model: type[Model], names: tuple[str, ...] | None = None) -> _Columns:
    """Of the fields called so; without `names`, of those that a new row brings a value for."""
    fields = _fields(model) if names is None else tuple(_field(model, name) for name in names)
    return _Columns(tuple(str(field.column) for field in fields), tuple(_writer(field) for field in fields))


@cache
def _field(model: type[Model], name: str) -> Field[Any, Any]:
    found = model._meta.pk if name == "pk" else model._meta.get_field(name)
    assert isinstance(found, Field)
    return found


def _writer(field: Field[Any, Any]) -> Callable[[Any], Any] | None:
    """What makes a field's value the column's; None when it is that already."""
    if isinstance(field, ForeignKey):
        return _writer(field.target_field)
    if not _is_postgresql():
        is_plain = isinstance(field, AS_THEY_ARE) and not hasattr(field, "from_db_value")
        return None if is_plain else lambda value: field.get_db_prep_save(value, connection)
    if isinstance(field, BinaryField):
        raise TypeError(f"{field}: JSON has no bytes")
    is_plain = isinstance(field, AS_THEY_ARE + ON_POSTGRESQL_TOO) and not hasattr(field, "from_db_value")
    return None if is_plain or type(field) is JSONField else field.get_prep_value


@cache
def _fields(model: type[Model]) -> tuple[Field[Any, Any], ...]:
    """Those that a new row brings a value for: all but a counted id."""
    meta = model._meta
    return tuple(field for field in meta.concrete_fields if field is not meta.auto_field)


def _loaded(model: type[Row], values: Sequence[Any]) -> Row:
    names, readers = _readers(model)
    row = [value if reader is None else reader(value) for reader, value in zip(readers, values, strict=True)]
    return model.from_db("default", names, row)


@cache
def _readers(model: type[Model]) -> tuple[tuple[str, ...], tuple[Callable[[Any], Any] | None, ...]]:
    """What makes a column's value the field's, as the ORM has it."""
    fields = model._meta.concrete_fields
    return tuple(field.attname for field in fields), tuple(_reader(field) for field in fields)


def _reader(field: Field[Any, Any]) -> Callable[[Any], Any] | None:
    column = field.get_col(field.model._meta.db_table)
    converters = [*connection.ops.get_db_converters(column), *field.get_db_converters(connection)]
    if not converters:
        return None

    def read(value: Any) -> Any:
        for converter in converters:
            value = converter(value, column, connection)
        return value

    return read


@cache
def _select(model: type[Model]) -> str:
    table = model._meta.db_table
    columns = ", ".join(f'"{table}"."{field.column}"' for field in model._meta.concrete_fields)
    return f'SELECT {columns} FROM "{table}"'


def _fresh(fields: Sequence[Field[Any, Any]]) -> str:
    """The rows of `as_json`, as a table."""
    columns = ", ".join(f'"{field.column}" {field.db_type(connection)}' for field in fields)
    return f"json_to_recordset(%s::json) AS fresh ({columns})"


@cache
def _insert(model: type[Model], replaces: tuple[str, ...]) -> str:
    fields = _fields(model)
    names = ", ".join(f'"{field.column}"' for field in fields)
    values = f"SELECT {names} FROM {_fresh(fields)}" if _is_postgresql() else f"VALUES ({marks(fields)})"
    sql = f'INSERT INTO "{model._meta.db_table}" ({names}) {values}'
    if replaces:
        columns = [_field(model, name).column for name in replaces]
        sets = ", ".join(f'"{column}" = excluded."{column}"' for column in columns)
        sql += f' ON CONFLICT ("{_field(model, "pk").column}") DO UPDATE SET {sets}'
    return sql


@cache
def _defaults(model: type[Model]) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """What the columns of a new row hold, in order, and what makes that anew for each row where it is not
    the same for all."""
    fields = _fields(model)
    made = {
        field.attname: field.default for field in fields if field.has_default() and callable(field.default)
    }
    return {field.attname: field.get_default() for field in fields}, made


@cache
def _update(model: type[Model], names: tuple[str, ...], where: tuple[str, ...]) -> str:
    table, key = model._meta.db_table, _field(model, "pk")
    fields = [_field(model, name) for name in names]
    tests = "".join(f' AND "{table}"."{_field(model, name).column}" = %s' for name in where)
    if _is_postgresql():
        sets = ", ".join(f'"{field.column}" = fresh."{field.column}"' for field in fields)
        mine = f'"{table}"."{key.column}"'
        same = f'{mine} = fresh."{key.column}"'
        return (
            f'UPDATE "{table}" SET {sets} FROM {_fresh([key, *fields])} WHERE {same}{tests} RETURNING {mine}'
        )
    sets = ", ".join(f'"{field.column}" = %s' for field in fields)
    return f'UPDATE "{table}" SET {sets} WHERE "{key.column}" = %s{tests}'
