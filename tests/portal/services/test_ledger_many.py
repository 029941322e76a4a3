"""The plain case in few statements, and what it leaves; `test_ledger_machine` proves the sums."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from portal.models.ledger import LedgerEntry
from portal.services import ledger
from portal.services.ledger_check import check
from portal.services.ledger_many import Ending, Hold, move
from tests.portal.people import a_team, all_at_once, amounts, somebody, the_clock_at

pytestmark = pytest.mark.django_db


def hold(user_id: int, amount: int | str = 1) -> Hold:
    return Hold(user_id, f"chat:{uuid4()}", Decimal(amount), None)


def test_it_takes_few_statements_however_many_there_are(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    users = [somebody(30) for _ in range(3)]
    holds = [hold(user.pk) for user in users for _ in range(10)]
    before = [hold(user.pk) for user in users]
    assert move(before, []) == {one.subject for one in before}

    with django_assert_max_num_queries(6):
        held = move(holds, [Ending(one.subject, Decimal(1)) for one in before])

    assert held == {one.subject for one in holds}
    assert {amounts(ledger.balance_of(user.pk)) for user in users} == {("0", "19", "0", "10")}
    assert check() == []


def test_it_leaves_whom_the_balance_does_not_reach_and_serves_the_rest() -> None:
    user = somebody(2)
    holds = [hold(user.pk, amount) for amount in (1, 5, 1, 1)]

    held = move(holds, [])

    assert held == {holds[0].subject, holds[2].subject}
    assert amounts(ledger.balance_of(user.pk)) == ("0", "0", "0", "2")


def test_it_gives_what_ends_to_what_begins() -> None:
    user = somebody(1)
    first = hold(user.pk)
    move([first], [])
    assert ledger.close(first.subject, Decimal(0)).released == 1
    second, third = hold(user.pk), hold(user.pk)
    move([second], [])

    assert move([third], [Ending(second.subject, Decimal(0))]) == {third.subject}
    assert check() == []


def test_it_leaves_what_needs_the_pool_or_a_new_month() -> None:
    in_team = somebody(0, team=a_team(pool=10))
    of_last_month = somebody(None)

    assert move([hold(in_team.pk)], []) == frozenset()
    with the_clock_at(datetime(2040, 1, 15, tzinfo=UTC)):
        assert move([hold(of_last_month.pk)], []) == frozenset()
    assert not LedgerEntry.objects.filter(kind="reserve").exists()


def test_it_closes_what_the_pool_paid_for() -> None:
    user = somebody(0, team=a_team(pool=10))
    ledger.reserve(user.pk, "run:pool", Decimal(4))

    move([], [Ending("run:pool", Decimal(3))])

    assert amounts(ledger.balance_of(user.pk)) == ("0", "0", "7", "0")
    assert check() == []


def test_it_closes_nothing_twice() -> None:
    user = somebody(5)
    one = hold(user.pk)
    move([one], [])
    move([], [Ending(one.subject, Decimal(1))])

    with pytest.raises(ledger.AlreadyClosed):
        move([], [Ending(one.subject, Decimal(1))])
    assert amounts(ledger.balance_of(user.pk)) == ("0", "4", "0", "0")


def test_it_reserves_nothing_twice() -> None:
    one = hold(somebody(5).pk)
    move([one], [])

    with pytest.raises(IntegrityError), transaction.atomic():
        move([one], [])


def test_it_closes_free_work_without_a_trace() -> None:
    assert move([], [Ending("chat:free", Decimal(0))]) == frozenset()


@pytest.mark.django_db(transaction=True)
def test_it_never_admits_more_than_the_balance_when_rounds_meet() -> None:
    user = somebody(7)

    def round_of_three(_: int) -> frozenset[str]:
        with transaction.atomic():
            return move([hold(user.pk) for _ in range(3)], [])

    rounds = all_at_once(6, round_of_three)

    assert sum(len(held) for held in rounds if isinstance(held, frozenset)) == 7
    assert amounts(ledger.balance_of(user.pk)) == ("0", "0", "0", "7")
    assert check() == []
