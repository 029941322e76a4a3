from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from portal.services import ledger_guard
from portal.services.ledger_check import check
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db


def run_sql(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("table", ledger_guard.TABLES)
@pytest.mark.parametrize("statement", ["UPDATE {} SET id = id + 1000", "DELETE FROM {}"])
def test_it_refuses_to_change_what_was_written(table: str, statement: str) -> None:
    somebody()

    with pytest.raises(DatabaseError, match="never changed or deleted"):
        run_sql(statement.format(table))


@pytest.mark.cluster
@pytest.mark.parametrize("table", ledger_guard.TABLES)
def test_it_refuses_to_truncate(table: str) -> None:
    with pytest.raises(DatabaseError, match="never changed or deleted"):
        run_sql(f"TRUNCATE {table} CASCADE")


def test_it_guards_from_the_first_migration_on() -> None:
    assert ledger_guard.missing() == []


def test_it_notices_that_a_guard_is_gone() -> None:
    on = " ON portal_ledgerentry" if connection.vendor == "postgresql" else ""

    run_sql(f"DROP TRIGGER portal_ledgerentry_no_update{on}")

    assert ledger_guard.missing() == ["update of portal_ledgerentry"]
    assert [str(drift) for drift in check()] == ["database: nothing forbids update of portal_ledgerentry"]


@pytest.mark.cluster
def test_it_notices_that_a_guard_is_switched_off() -> None:
    run_sql("ALTER TABLE portal_ledgerentry DISABLE TRIGGER portal_ledgerentry_no_delete")

    assert ledger_guard.missing() == ["delete of portal_ledgerentry"]


@pytest.mark.cluster
def test_it_takes_no_guard_of_another_portal_in_the_same_database_for_its_own() -> None:
    run_sql("CREATE SCHEMA other")
    run_sql("CREATE TABLE other.portal_ledgerentry (id bigint)")
    run_sql(
        "CREATE TRIGGER portal_ledgerentry_no_update BEFORE UPDATE ON other.portal_ledgerentry"
        " FOR EACH ROW EXECUTE FUNCTION portal_append_only()"
    )
    run_sql("DROP TRIGGER portal_ledgerentry_no_update ON portal_ledgerentry")

    assert ledger_guard.missing() == ["update of portal_ledgerentry"]


def test_it_puts_the_guard_back_with_the_next_migrate() -> None:
    ledger_guard.remove()

    call_command("migrate", verbosity=0)

    assert ledger_guard.missing() == []
