from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pytest_django import DjangoAssertNumQueries

from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services.rows import insert_rows, update_rows
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
    insert_rows([LedgerEntry(**values), LedgerEntry(**values)])
    LedgerEntry(**values).save(force_insert=True)

    written = LedgerEntry.objects.filter(kind="adjust").order_by("pk").values()
    first, second, orm = ({name: value for name, value in row.items() if name != "id"} for row in written)
    assert first == second == orm
    assert orm["settled"] is None


def test_it_stores_json_and_addresses() -> None:
    detail = {"name": "it's {odd}", "count": 3, "none": None, "list": [1, "two"]}
    insert_rows([AuditEntry(action="a.b", detail=detail, address="192.0.2.7", at=NOON)])

    entry = AuditEntry.objects.get(action="a.b")
    assert (entry.detail, entry.address, entry.at) == (detail, "192.0.2.7", NOON)


def test_it_inserts_nothing_for_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        insert_rows([])
        assert update_rows(CreditAccount, {}) == set()


def test_it_changes_each_row_by_its_own_values() -> None:
    one, two = (credits_of(somebody(5)) for _ in range(2))
    changes = {one.pk: {"own": Decimal("1.5"), "plan_id": None}, two.pk: {"own": Decimal(2), "plan_id": None}}

    assert update_rows(CreditAccount, changes) == {one.pk, two.pk}
    assert [CreditAccount.objects.get(pk=key).own for key in (one.pk, two.pk)] == [Decimal("1.5"), 2]


def test_it_changes_only_rows_that_are_as_said_and_names_them() -> None:
    one, two = (credits_of(somebody(5)) for _ in range(2))
    CreditAccount.objects.filter(pk=one.pk).update(reserved=1)
    changes = {key: {"own": Decimal(0)} for key in (one.pk, two.pk, 10**9)}

    assert update_rows(CreditAccount, changes, reserved=Decimal(0)) == {two.pk}
    assert CreditAccount.objects.get(pk=one.pk).own == 5
