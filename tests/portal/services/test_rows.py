from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services.rows import Plain, Select, insert, insert_values, run, update
from tests.portal.people import credits_of, somebody

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)


def test_it_stores_what_the_orm_would_store() -> None:
    account = credits_of(somebody())
    values = {
        "account": account,
        "kind": "adjust",
        "reason": 'it\'s "odd" — ünï, {a,b}, NULL, \\x',
        "delta": Decimal("-1.2345"),
        "own_delta": Decimal("-1.2345"),
        "created_at": NOON,
    }
    run(insert([LedgerEntry(**values), LedgerEntry(**values)]))
    LedgerEntry(**values).save(force_insert=True)

    written = LedgerEntry.objects.filter(kind="adjust").order_by("pk").values()
    first, second, orm = ({name: value for name, value in row.items() if name != "id"} for row in written)
    assert first == second == orm
    assert orm["settled"] is None


def test_it_stores_json_and_addresses() -> None:
    detail = {"name": "it's {odd}", "count": 3, "none": None, "list": [1, "two"]}
    run(insert([AuditEntry(action="a.b", detail=detail, address="192.0.2.7", at=NOON)]))

    entry = AuditEntry.objects.get(action="a.b")
    assert (entry.detail, entry.address, entry.at) == (detail, "192.0.2.7", NOON)


def test_it_stores_values_as_objects_of_them_and_defaults_where_none_are_named() -> None:
    account = credits_of(somebody())
    columns = {
        "account_id": account.pk,
        "kind": "adjust",
        "reason": "\N{SNOWMAN} 'x'",
        "delta": Decimal("-0.5"),
    }
    whole = {**columns, "own_delta": Decimal("-0.5"), "created_at": NOON}
    run(insert_values(LedgerEntry, [whole, {**whole, "reason": "other"}]), insert([LedgerEntry(**whole)]))

    written = list(LedgerEntry.objects.filter(kind="adjust").order_by("pk").values())
    rows = [{name: value for name, value in row.items() if name != "id"} for row in written]
    assert rows[0] == rows[2]
    assert [row["reason"] for row in rows] == [whole["reason"], "other", whole["reason"]]


def test_it_makes_a_default_anew_for_each_row() -> None:
    run(insert_values(AuditEntry, [{"action": "a.b"}, {"action": "a.b", "detail": {"x": [True, None, 1.5]}}]))

    first, second = AuditEntry.objects.filter(action="a.b").order_by("pk")
    assert (first.detail, first.key_id, first.actor_id) == ({}, "", None)
    assert second.detail == {"x": [True, None, 1.5]}
    assert abs(timezone.now() - first.at) < timedelta(minutes=1)


def test_it_refuses_a_column_that_is_none() -> None:
    with pytest.raises(ValueError, match="zip"):
        run(insert_values(AuditEntry, [{"action": "a.b", "acton": "a.c"}]))


def test_it_refuses_what_the_column_refuses() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        run(insert_values(AuditEntry, [{"action": None}]))
    assert not AuditEntry.objects.filter(detail={}).exists()


def test_it_inserts_nothing_for_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        assert run(insert([]), insert_values(AuditEntry, []), update(CreditAccount, {})) == [None] * 3


def test_it_changes_each_row_by_its_own_values() -> None:
    one, two = (credits_of(somebody(5)) for _ in range(2))
    changes = {one.pk: {"own": Decimal("1.5"), "plan_id": None}, two.pk: {"own": Decimal(2), "plan_id": None}}

    assert run(update(CreditAccount, changes)) == [{one.pk, two.pk}]
    assert [CreditAccount.objects.get(pk=key).own for key in (one.pk, two.pk)] == [Decimal("1.5"), 2]


def test_it_changes_only_rows_that_are_as_said_and_names_them() -> None:
    one, two = (credits_of(somebody(5)) for _ in range(2))
    CreditAccount.objects.filter(pk=one.pk).update(reserved=1)
    changes = {key: {"own": Decimal(0)} for key in (one.pk, two.pk, 10**9)}

    assert run(update(CreditAccount, changes, reserved=Decimal(0))) == [{two.pk}]
    assert CreditAccount.objects.get(pk=one.pk).own == 5


def test_it_reads_what_the_orm_would_read() -> None:
    users = [somebody(5) for _ in range(2)]
    LedgerEntry.objects.create(
        account=credits_of(users[0]), kind="adjust", reason="x", delta=0, created_at=NOON
    )
    AuditEntry.objects.create(action="a.b", detail={"one": [1, None]}, address="2001:db8::1", at=NOON)
    for model in (CreditAccount, LedgerEntry, AuditEntry, type(users[0])):
        (rows,) = run(Select(model, "ORDER BY id"))
        names = [field.attname for field in model._meta.concrete_fields]
        orm = list(model.objects.order_by("pk"))
        assert rows == orm
        assert [[getattr(row, name) for name in names] for row in rows] == [
            [getattr(row, name) for name in names] for row in orm
        ]


def test_it_gives_each_statement_its_own_result_in_order() -> None:
    one, two = (credits_of(somebody(5)) for _ in range(2))
    count = Plain("SELECT count(*) FROM portal_creditaccount WHERE own = %s", [70_000])

    before, changed, nothing, after, rows = run(
        count,
        update(CreditAccount, {one.pk: {"own": Decimal(7)}}),
        insert([]),
        count,
        Select(CreditAccount, "WHERE id IN (%s, %s) ORDER BY id", [one.pk, two.pk]),
    )

    assert (before, changed, nothing, after) == ([(0,)], {one.pk}, None, [(1,)])
    assert [row.own for row in rows] == [7, 5]


def test_it_takes_one_trip_where_that_can_be(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    one = Plain("SELECT 1")
    with django_assert_num_queries(1 if connection.vendor == "postgresql" else 3):
        assert run(one, one, one) == [[(1,)]] * 3
