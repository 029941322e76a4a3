"""Rows written without the ORM's composing: for doors that hundreds pass at once.

The ORM composes SQL anew for each call, which takes longer than the database does. Here a statement is
composed once for each kind of row. On PostgreSQL it takes columns as arrays, so that it stays the same
however many rows there are. What a field stores is the field's own affair here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import BooleanField, CharField, Field, ForeignKey, Model, TextField

AS_THEY_ARE = (CharField, TextField, BooleanField, ForeignKey)
"""Fields that store the values that we put into them; others are asked."""


def insert_rows(rows: Sequence[Model]) -> None:
    """Insert new rows of one model, in order. Their generated ids are not read back."""
    if not rows:
        return
    model = type(rows[0])
    writers = [(field.attname, _writer(field)) for field in _fields(model)]
    values = [[write(getattr(row, name)) for name, write in writers] for row in rows]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_insert(model), _columns(values))
        else:
            cursor.executemany(_insert(model), values)


def update_rows(model: type[Model], changes: Mapping[Any, Mapping[str, Any]], **where: Any) -> set[Any]:
    """Set in each row what `changes` says for its primary key, if it is as `where` says; the keys of those
    that were. All changes name the same fields."""
    if not changes:
        return set()
    names = tuple(next(iter(changes.values())))
    writers = [_writer(_field(model, name)) for name in ("pk", *names)]
    tests = [_writer(_field(model, name))(value) for name, value in where.items()]
    rows = [
        [write(value) for write, value in zip(writers, (key, *change.values()), strict=True)]
        for key, change in changes.items()
    ]
    sql = _update(model, names, tuple(where))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(sql, [*_columns(rows), *tests])
            return {key for (key,) in cursor.fetchall()}
        done = set()
        for key, row in zip(changes, rows, strict=True):
            cursor.execute(sql, [*row[1:], row[0], *tests])
            done |= {key} if cursor.rowcount else set()
        return done


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


@cache
def _field(model: type[Model], name: str) -> Field[Any, Any]:
    found = model._meta.pk if name == "pk" else model._meta.get_field(name)
    assert isinstance(found, Field)
    return found


@cache
def _writer(field: Field[Any, Any]) -> Callable[[Any], Any]:
    if isinstance(field, AS_THEY_ARE):
        return _same
    return lambda value: field.get_db_prep_save(value, connection)


def _same(value: Any) -> Any:
    return value


@cache
def _fields(model: type[Model]) -> tuple[Field[Any, Any], ...]:
    """Those that a new row brings a value for: all but a counted id."""
    meta = model._meta
    return tuple(field for field in meta.concrete_fields if field is not meta.auto_field)


def _arrays(fields: Sequence[Field[Any, Any]]) -> str:
    return ", ".join(f"%s::{field.db_type(connection)}[]" for field in fields)


@cache
def _insert(model: type[Model]) -> str:
    fields = _fields(model)
    names = ", ".join(f'"{field.column}"' for field in fields)
    if connection.vendor == "postgresql":
        values = f"SELECT * FROM unnest({_arrays(fields)})"
    else:
        values = f"VALUES ({', '.join(['%s'] * len(fields))})"
    return f'INSERT INTO "{model._meta.db_table}" ({names}) {values}'


@cache
def _update(model: type[Model], names: tuple[str, ...], where: tuple[str, ...]) -> str:
    table, key = model._meta.db_table, _field(model, "pk")
    fields = [_field(model, name) for name in names]
    tests = "".join(f' AND "{table}"."{_field(model, name).column}" = %s' for name in where)
    if connection.vendor == "postgresql":
        sets = ", ".join(f'"{field.column}" = fresh."{field.column}"' for field in fields)
        columns = ", ".join(f'"{field.column}"' for field in (key, *fields))
        fresh = f"unnest({_arrays([key, *fields])}) AS fresh ({columns})"
        one = f'"{table}"."{key.column}" = fresh."{key.column}"'
        return (
            f'UPDATE "{table}" SET {sets} FROM {fresh} WHERE {one}{tests} RETURNING "{table}"."{key.column}"'
        )
    sets = ", ".join(f'"{field.column}" = %s' for field in fields)
    return f'UPDATE "{table}" SET {sets} WHERE "{key.column}" = %s{tests}'
