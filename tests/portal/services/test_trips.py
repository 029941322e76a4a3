"""Several statements in one trip to PostgreSQL: what is open, what is kept, and what is prepared."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from portal.models.audit import AuditEntry
from portal.models.ledger import LedgerEntry
from portal.services import trips
from portal.services.rows import Plain, begin, end, insert_values, run
from portal.services.trips import with_prepared

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.cluster]

DOUBLE = Plain("SELECT 2 * %s::int, 'it''s 100%%'", [21])
FAILING = Plain("SELECT 1 / %s::int", [0])
DOUBLED = [(42, "it's 100%")]


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is prepared yet, and nothing was ever wrong with that."""
    monkeypatch.setattr(trips, "_speaks_plainly", False)
    forget()


def forget() -> None:
    trips._prepared.clear()
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")


def entry(action: str = "a.b") -> Any:
    return insert_values(AuditEntry, [{"action": action}])


def whole(*statements: Any) -> list[Any]:
    """A transaction of these alone."""

    def work() -> list[Any]:
        with transaction.atomic():
            return begin(*statements)

    return with_prepared(work)


def prepared() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'sonde_%%'", [])
        return int(cursor.fetchone()[0])


def test_it_takes_two_trips_for_a_whole_transaction() -> None:
    told: list[str] = []
    warned: list[object] = []  # of a BEGIN or COMMIT that the driver sent besides
    connection.connection.add_notice_handler(warned.append)
    with CaptureQueriesContext(connection) as asked, transaction.atomic():
        transaction.on_commit(lambda: told.append("committed"))
        first = begin(DOUBLE, None, Plain("SELECT txid_current_if_assigned()"))
        last = end(entry(), DOUBLE)

    assert first == [DOUBLED, None, [(None,)]]
    assert last == [None, DOUBLED]
    assert told == ["committed"]
    assert AuditEntry.objects.filter(action="a.b").count() == 1
    assert connection.get_autocommit()
    first_text, last_text = (one["sql"] for one in asked if ";" in one["sql"])
    assert first_text.startswith("BEGIN;")
    assert last_text.endswith(";\nCOMMIT")
    assert warned == []


def test_a_transaction_that_ended_with_what_was_last_is_followed_by_another() -> None:
    for place in range(3):
        with transaction.atomic():
            begin(DOUBLE)
            end(entry(f"a.{place}"))

    AuditEntry.objects.create(action="a.3")
    assert AuditEntry.objects.filter(action__startswith="a.").count() == 4


def test_an_error_in_the_last_trip_leaves_nothing() -> None:
    told: list[str] = []

    def fail() -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: told.append("committed"))
            begin(entry("a.1"))
            end(entry("a.2"), FAILING)

    with pytest.raises(DatabaseError, match="division"):
        fail()
    assert told == []
    assert not AuditEntry.objects.filter(action__startswith="a.").exists()


def test_a_constraint_that_waits_for_the_commit_leaves_nothing() -> None:
    nobody = {"account_id": 999_999, "kind": "adjust", "reason": "x", "delta": 0, "own_delta": 0}

    def fail() -> None:
        with transaction.atomic():
            begin(entry("a.1"))
            end(insert_values(LedgerEntry, [nobody]))

    with pytest.raises(IntegrityError, match="foreign key"):
        fail()
    assert not AuditEntry.objects.filter(action="a.1").exists()
    assert connection.get_autocommit()


def test_the_last_trip_of_an_inner_block_commits_nothing() -> None:
    with transaction.atomic():
        begin(DOUBLE)
        with transaction.atomic():
            end(entry())
        transaction.set_rollback(True)

    assert not AuditEntry.objects.filter(action="a.b").exists()


def test_it_prepares_a_statement_once_for_each_connection() -> None:
    varying = Plain("SELECT 1 WHERE 1 IN (%s, %s)", [1, 2], varies=True)
    for place in range(3):
        assert whole(DOUBLE, varying, entry(f"a.{place}")) == [DOUBLED, [(1,)], None]

    assert prepared() == 2
    assert AuditEntry.objects.filter(action__startswith="a.").count() == 3


def test_what_cannot_be_done_once_more_is_not_prepared() -> None:
    whole(DOUBLE)
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")

    with transaction.atomic():
        assert run(DOUBLE) == [DOUBLED]
    assert prepared() == 0


def test_outside_of_transactions_nothing_is_prepared() -> None:
    assert with_prepared(lambda: run(DOUBLE)) == [DOUBLED]
    assert prepared() == 0


def test_a_plan_is_made_for_the_table_as_it_will_be() -> None:
    """Also when it is made anew, as after each ANALYZE."""
    entry_of = Plain("SELECT id FROM portal_auditentry WHERE id = ANY(%s)", [[1, 2]])
    for _ in range(2):
        explain = Plain(f"EXPLAIN EXECUTE {trips._name(entry_of.sql)}('{{1,2}}')", varies=True)
        _, plan = whole(entry_of, explain)
        lines = "\n".join(line for (line,) in plan)
        assert "Seq Scan" not in lines
        assert "$1" in lines
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE portal_auditentry")


def double() -> list[Any]:
    with transaction.atomic():
        begin(entry())
        return end(DOUBLE)


@pytest.mark.parametrize("name", ["missing", "there already"])
def test_where_statements_are_not_kept_it_speaks_plainly(name: str) -> None:
    """As behind a pooler, by which a connection comes to another server."""
    assert with_prepared(double) == [DOUBLED]
    if name == "missing":
        with connection.cursor() as cursor:
            cursor.execute("DEALLOCATE ALL")
    else:
        trips._prepared.clear()

    assert with_prepared(double) == [DOUBLED]
    assert trips._speaks_plainly
    forget()
    assert with_prepared(double) == [DOUBLED]
    assert prepared() == 0
    assert AuditEntry.objects.filter(action="a.b").count() == 3


def test_any_other_error_is_raised_once() -> None:
    tries = []

    def fail() -> None:
        tries.append(1)
        with transaction.atomic():
            begin(FAILING)

    with pytest.raises(DatabaseError, match="division"):
        with_prepared(fail)
    assert tries == [1]
    assert not trips._speaks_plainly


def test_a_connection_on_which_preparing_broke_is_spoken_to_plainly() -> None:
    with pytest.raises(DatabaseError, match="division"):
        whole(DOUBLE, FAILING)
    before = prepared()

    assert with_prepared(double) == [DOUBLED]
    assert prepared() == before > 0
    assert not trips._speaks_plainly
