from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import transaction

from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger
from portal.services.keys import create_key
from portal.services.ledger import (
    AlreadyClosed,
    AlreadyReserved,
    Balance,
    Closed,
    InsufficientCredit,
    NotRefundable,
)
from portal.services.ledger_check import check, totals
from tests.portal.people import a_team, amounts, credits_of, somebody, the_clock_at

pytestmark = pytest.mark.django_db

NOVEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)


def give(account: CreditAccount, amount: str) -> None:
    ledger.grant(account, Decimal(amount), grant_key="gift", reason="a gift", actor_id=None)


def test_it_gives_a_newcomer_the_allowance_of_the_default_plan() -> None:
    assert amounts(ledger.balance_of(somebody(None).pk)) == ("100", "0", "0", "0")


def test_it_gives_a_newcomer_exactly_the_credits_that_were_named() -> None:
    user = somebody("7.5")

    assert amounts(ledger.balance_of(user.pk)) == ("0", "7.5", "0", "0")
    assert credits_of(user).plan is None


def test_it_gives_a_newcomer_nothing_when_nothing_was_named() -> None:
    assert ledger.balance_of(somebody(0).pk).available == 0


def test_it_knows_no_credits_of_users_without_an_account() -> None:
    assert ledger.balance_of(0) == Balance()


def test_it_holds_what_is_reserved() -> None:
    user = somebody(10)

    ledger.reserve(user.pk, "run:a", Decimal("2.5"))

    assert amounts(ledger.balance_of(user.pk)) == ("0", "7.5", "0", "2.5")


def test_it_draws_allowance_then_own_then_the_pool_of_the_team() -> None:
    user = somebody(None, team=a_team(50))
    give(credits_of(user), "10")

    ledger.reserve(user.pk, "run:a", Decimal(115))

    assert amounts(ledger.balance_of(user.pk)) == ("0", "0", "45", "115")
    entry = LedgerEntry.objects.get(kind="reserve")
    assert (entry.allowance_delta, entry.own_delta, entry.pool_delta) == (-100, -10, -5)
    assert check() == []


def test_it_releases_what_was_drawn_last_first() -> None:
    user = somebody(None, team=a_team(50))
    give(credits_of(user), "10")
    ledger.reserve(user.pk, "run:a", Decimal(115))

    closed = ledger.close("run:a", Decimal(103))

    assert closed == Closed(Decimal(103), Decimal(12))
    assert amounts(ledger.balance_of(user.pk)) == ("0", "7", "50", "0")
    assert check() == []


def test_it_keeps_what_the_pool_settled() -> None:
    team = a_team(50)
    user = somebody(0, team=team)
    ledger.reserve(user.pk, "run:a", Decimal(20))

    ledger.close("run:a", Decimal(20))

    pool = CreditAccount.objects.get(team=team)
    assert (pool.own, pool.reserved) == (30, 0)
    assert check() == []


def test_it_lets_two_users_draw_on_one_pool() -> None:
    team = a_team(5)
    first, second = somebody(0, team=team), somebody(1, team=team)
    ledger.reserve(first.pk, "run:a", Decimal(4))

    ledger.reserve(second.pk, "run:b", Decimal(2))

    with pytest.raises(InsufficientCredit):
        ledger.reserve(first.pk, "run:c", Decimal("0.0001"))
    assert check() == []


def test_it_refuses_more_than_is_left_and_writes_nothing() -> None:
    user = somebody(1)

    with pytest.raises(InsufficientCredit):
        ledger.reserve(user.pk, "run:a", Decimal("1.0001"))

    assert not LedgerEntry.objects.filter(subject="run:a").exists()
    assert amounts(ledger.balance_of(user.pk)) == ("0", "1", "0", "0")


def test_it_refuses_a_user_without_an_account() -> None:
    with pytest.raises(InsufficientCredit):
        ledger.reserve(0, "run:a", Decimal(1))


def test_it_reserves_once_for_one_subject() -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(1))

    with pytest.raises(AlreadyReserved):
        ledger.reserve(user.pk, "run:a", Decimal(1))

    assert ledger.balance_of(user.pk).own == 9


def test_it_closes_once() -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(2))
    ledger.close("run:a", Decimal(0))

    with pytest.raises(AlreadyClosed):
        ledger.close("run:a", Decimal(2))

    assert amounts(ledger.balance_of(user.pk)) == ("0", "10", "0", "0")


def test_it_writes_nothing_for_a_free_run() -> None:
    user = somebody(0)

    ledger.reserve(user.pk, "run:a", Decimal(0))

    assert ledger.close("run:a", Decimal(0)) == Closed(Decimal(0), Decimal(0))
    assert not LedgerEntry.objects.exists()


def test_it_knows_no_negative_amounts() -> None:
    with pytest.raises(ValueError, match="negative"):
        ledger.reserve(somebody().pk, "run:a", Decimal(-1))
    with pytest.raises(ValueError, match="negative"):
        ledger.close("run:a", Decimal(-1))


def test_it_settles_at_most_what_was_reserved_and_logs_the_overrun(caplog: pytest.LogCaptureFixture) -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(2))

    with caplog.at_level(logging.WARNING):
        closed = ledger.close("run:a", Decimal(5))

    assert closed == Closed(Decimal(2), Decimal(0))
    assert "run:a cost 5" in caplog.text


def test_it_is_exact_to_four_places() -> None:
    user = somebody("0.3")

    for number in range(3):
        ledger.reserve(user.pk, f"run:{number}", Decimal("0.1"))
        ledger.close(f"run:{number}", Decimal("0.0999"))

    assert ledger.balance_of(user.pk).own == Decimal("0.0003")
    assert check() == []


def test_it_respects_the_monthly_cap_of_a_key() -> None:
    user = somebody(100)
    key, _ = create_key(user, name="capped", monthly_cap=Decimal(5))
    ledger.reserve(user.pk, "run:a", Decimal(4), key_id=key.pk)

    with pytest.raises(InsufficientCredit):
        ledger.reserve(user.pk, "run:b", Decimal(2), key_id=key.pk)

    ledger.reserve(user.pk, "run:c", Decimal(1), key_id=key.pk)


def test_it_gives_a_key_back_what_was_released() -> None:
    user = somebody(100)
    key, _ = create_key(user, name="capped", monthly_cap=Decimal(5))
    ledger.reserve(user.pk, "run:a", Decimal(4), key_id=key.pk)
    ledger.close("run:a", Decimal(1))

    ledger.reserve(user.pk, "run:b", Decimal(4), key_id=key.pk)

    with pytest.raises(InsufficientCredit):
        ledger.reserve(user.pk, "run:c", Decimal("0.1"), key_id=key.pk)


def test_it_counts_a_key_anew_each_month_whatever_last_month_gives_back() -> None:
    user = somebody(100)
    key, _ = create_key(user, name="capped", monthly_cap=Decimal(5))
    with the_clock_at(NOVEMBER):
        ledger.reserve(user.pk, "run:a", Decimal(5), key_id=key.pk)
    with the_clock_at(DECEMBER):
        ledger.close("run:a", Decimal(0))
        ledger.reserve(user.pk, "run:b", Decimal(5), key_id=key.pk)
        with pytest.raises(InsufficientCredit):
            ledger.reserve(user.pk, "run:c", Decimal(1), key_id=key.pk)


def test_it_refunds_to_the_purses_it_was_drawn_from() -> None:
    user = somebody(None, team=a_team(50))
    ledger.reserve(user.pk, "run:a", Decimal(110))
    ledger.close("run:a", Decimal(105))

    ledger.refund("run:a", Decimal(7), reason="a poor report", actor_id=None)

    assert amounts(ledger.balance_of(user.pk)) == ("2", "0", "50", "0")
    assert check() == []


def test_it_refunds_an_ended_allowance_as_own_credits() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(10))
        ledger.close("run:a", Decimal(10))
    with the_clock_at(DECEMBER):
        ledger.reserve(user.pk, "run:b", Decimal(1))
        ledger.refund("run:a", Decimal(10), reason="late", actor_id=None)

        assert amounts(ledger.balance_of(user.pk)) == ("99", "10", "0", "1")
    assert check() == []


def test_it_refunds_as_own_credits_before_the_new_month_was_begun() -> None:
    with the_clock_at(NOVEMBER):
        user = somebody(None)
        ledger.reserve(user.pk, "run:a", Decimal(10))
        ledger.close("run:a", Decimal(10))
    with the_clock_at(DECEMBER):
        ledger.refund("run:a", Decimal(10), reason="late", actor_id=None)

        assert amounts(ledger.balance_of(user.pk)) == ("100", "10", "0", "0")


@pytest.mark.parametrize("amount", ["2.0001", "0", "-1"])
def test_it_refunds_no_other_amount_than_was_settled(amount: str) -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(5))
    ledger.close("run:a", Decimal(2))

    with pytest.raises(NotRefundable):
        ledger.refund("run:a", Decimal(amount), reason="no", actor_id=None)


def test_it_refunds_once() -> None:
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(5))
    ledger.close("run:a", Decimal(5))
    ledger.refund("run:a", Decimal(1), reason="once", actor_id=None)

    with pytest.raises(NotRefundable):
        ledger.refund("run:a", Decimal(1), reason="twice", actor_id=None)

    assert ledger.balance_of(user.pk).own == 6


def test_it_refunds_nothing_that_is_still_reserved() -> None:
    ledger.reserve(somebody(10).pk, "run:a", Decimal(5))

    with pytest.raises(NotRefundable):
        ledger.refund("run:a", Decimal(1), reason="early", actor_id=None)


def test_it_grants_once_for_one_grant_key() -> None:
    account = credits_of(somebody(0))

    assert ledger.grant(account, Decimal(5), grant_key="bonus", reason="bonus", actor_id=None)
    assert not ledger.grant(account, Decimal(5), grant_key="bonus", reason="bonus", actor_id=None)

    account.refresh_from_db()
    assert account.own == 5


def test_it_adjusts_own_credits_first_and_never_below_zero() -> None:
    user = somebody(None)
    give(credits_of(user), "5")

    ledger.adjust(credits_of(user), Decimal(-7), reason="a mistake", actor_id=None)

    assert amounts(ledger.balance_of(user.pk)) == ("98", "0", "0", "0")
    with pytest.raises(InsufficientCredit):
        ledger.adjust(credits_of(user), Decimal("-98.1"), reason="too much", actor_id=None)
    assert check() == []


def test_it_adjusts_nothing_without_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        ledger.adjust(credits_of(somebody()), Decimal(1), reason="", actor_id=None)


def test_it_adds_everything_up() -> None:
    user = somebody(None, team=a_team(50))
    ledger.reserve(user.pk, "run:a", Decimal(110))
    ledger.close("run:a", Decimal(105))
    ledger.refund("run:a", Decimal(1), reason="kindness", actor_id=None)
    ledger.reserve(user.pk, "run:b", Decimal(3))

    books = totals()

    sums = [books.granted, books.charged, books.reserved, books.left]
    assert sums == [150, 104, 3, 43]
    assert books.granted == books.charged + books.reserved + books.left


def test_it_reads_a_balance_in_one_query(django_assert_num_queries: pytest.FixtureRequest) -> None:
    user = somebody(None, team=a_team(5))

    with django_assert_num_queries(1):  # type: ignore[operator]  # pytest-django's fixture
        ledger.balance_of(user.pk)


REFUSED: dict[str, Callable[[int], object]] = {
    "reserved before": lambda user: ledger.reserve(user, "run:a", Decimal(1)),
    "closed before": lambda user: ledger.close("run:a", Decimal(0)),
    "too much": lambda user: ledger.reserve(user, "run:b", Decimal(10)),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_it_leaves_the_transaction_it_refused_in_fit_to_go_on(refused: str) -> None:
    """Whoever was refused writes that down, in the same transaction."""
    user = somebody(10)
    ledger.reserve(user.pk, "run:a", Decimal(1))
    ledger.close("run:a", Decimal(1))
    with transaction.atomic():
        with pytest.raises((AlreadyReserved, AlreadyClosed, InsufficientCredit)):
            REFUSED[refused](user.pk)
        ledger.reserve(user.pk, "run:c", Decimal(2))
    assert amounts(ledger.balance_of(user.pk)) == ("0", "7", "0", "2")
    assert check() == []
