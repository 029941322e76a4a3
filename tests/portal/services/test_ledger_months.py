"""The allowance begins and ends with its calendar month, UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from portal.models.ledger import CreditAccount, LedgerEntry, Plan
from portal.services import ledger
from portal.services.ledger import InsufficientCredit
from portal.services.ledger_check import check
from tests.portal.people import amounts, somebody, the_clock_at

pytestmark = pytest.mark.django_db

NOVEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)


def test_it_ends_the_allowance_with_its_month_and_grants_the_next() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(30))
        ledger.close("run:a", Decimal(30))
    with the_clock_at(DECEMBER):
        ledger.reserve(user.pk, "run:b", Decimal(1))

        assert amounts(ledger.balance_of(user.pk)) == ("99", "0", "0", "1")
    ended = LedgerEntry.objects.get(kind="adjust")
    assert (ended.delta, ended.reason) == (-70, "allowance of 2026-11 ended")
    assert check() == []


def test_it_shows_the_new_month_before_anything_is_written() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(30))
    with the_clock_at(DECEMBER):
        assert amounts(ledger.balance_of(user.pk)) == ("100", "0", "0", "30")


def test_it_lets_what_an_ended_month_gets_back_end_at_once() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(30))
    with the_clock_at(DECEMBER):
        ledger.reserve(user.pk, "run:b", Decimal(1))
        ledger.close("run:a", Decimal(0))

        assert amounts(ledger.balance_of(user.pk)) == ("99", "0", "0", "1")
    assert check() == []


def test_it_ends_what_came_back_before_the_new_month_was_begun() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(30))
    with the_clock_at(DECEMBER):
        ledger.close("run:a", Decimal(0))
        ledger.reserve(user.pk, "run:b", Decimal(1))

        assert amounts(ledger.balance_of(user.pk)) == ("99", "0", "0", "1")
    assert check() == []


def test_it_grants_a_month_once_when_the_clock_runs_back() -> None:
    with the_clock_at(DECEMBER):
        user = somebody(None)
    with the_clock_at(NOVEMBER):
        ledger.reserve(user.pk, "run:a", Decimal(1))
    with the_clock_at(DECEMBER):
        ledger.reserve(user.pk, "run:b", Decimal(1))

    assert LedgerEntry.objects.filter(kind="grant").count() == 1


def test_it_ends_the_allowance_of_a_plan_that_was_taken_away() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
    CreditAccount.objects.update(plan=None)
    with the_clock_at(DECEMBER):
        assert ledger.balance_of(user.pk).available == 0
        with pytest.raises(InsufficientCredit):
            ledger.reserve(user.pk, "run:a", Decimal(1))


def test_it_begins_the_allowance_of_a_plan_that_was_given() -> None:
    user = somebody(0)
    CreditAccount.objects.update(plan=Plan.objects.get())

    ledger.reserve(user.pk, "run:a", Decimal(1))

    assert ledger.balance_of(user.pk).allowance == 99


def test_it_corrects_the_balance_that_is_shown_not_one_of_an_ended_month() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(90))
    with the_clock_at(DECEMBER):
        ledger.adjust(CreditAccount.objects.get(), Decimal(-60), reason="a mistake", actor_id=None)

        assert amounts(ledger.balance_of(user.pk)) == ("40", "0", "0", "90")
    assert check() == []
