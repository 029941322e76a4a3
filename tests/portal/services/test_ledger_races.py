"""Threads with connections of their own, on a database with real transactions."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from portal.models.ledger import CreditAccount
from portal.services import ledger
from portal.services.keys import create_key
from portal.services.ledger import AlreadyClosed, Closed, InsufficientCredit
from portal.services.ledger_check import check
from tests.portal.people import a_team, all_at_once, amounts, somebody, the_clock_at

pytestmark = pytest.mark.django_db(transaction=True)

NOVEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)


def test_it_admits_one_of_twenty_on_a_balance_for_one() -> None:
    user = somebody(1)

    outcomes = all_at_once(20, lambda place: ledger.reserve(user.pk, f"run:{place}", Decimal(1)))

    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, InsufficientCredit) for outcome in outcomes) == 19
    assert amounts(ledger.balance_of(user.pk)) == ("0", "0", "0", "1")
    assert check() == []


def test_it_lets_one_of_many_closes_win() -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(2))

    outcomes = all_at_once(8, lambda place: ledger.close("run:a", Decimal(place % 3)))

    assert sum(isinstance(outcome, Closed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, AlreadyClosed) for outcome in outcomes) == 7
    assert check() == []


def test_it_loses_nothing_when_many_runs_of_one_user_end_at_once() -> None:
    user = somebody(10)
    for number in range(8):
        ledger.reserve(user.pk, f"run:{number}", Decimal(1))

    all_at_once(8, lambda place: ledger.close(f"run:{place}", Decimal(place % 2)))

    assert amounts(ledger.balance_of(user.pk)) == ("0", "6", "0", "0")
    assert check() == []


def test_it_never_overdraws_a_pool_that_many_users_share() -> None:
    team = a_team(5)
    people = [somebody(1, team=team) for _ in range(10)]

    outcomes = all_at_once(10, lambda place: ledger.reserve(people[place].pk, f"run:{place}", Decimal(2)))

    assert outcomes.count(None) == 5
    assert CreditAccount.objects.get(team=team).own == 0
    assert check() == []


def test_it_begins_a_month_once_when_many_come_at_once() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
    with the_clock_at(DECEMBER):
        all_at_once(8, lambda place: ledger.reserve(user.pk, f"run:{place}", Decimal(1)))

        assert amounts(ledger.balance_of(user.pk)) == ("92", "0", "0", "8")
    assert check() == []


def test_it_respects_a_cap_that_many_meet_at_once() -> None:
    user = somebody(100)
    key, _ = create_key(user, name="capped", monthly_cap=Decimal(3))

    def reserve(place: int) -> None:
        ledger.reserve(user.pk, f"run:{place}", Decimal(1), key_id=key.pk)

    outcomes = all_at_once(10, reserve)

    assert outcomes.count(None) == 3
