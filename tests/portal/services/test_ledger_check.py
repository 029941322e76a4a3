"""Each way in which the books can be wrong is found; the guard is lifted to make them so."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db.models import F

from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger, ledger_guard
from portal.services.ledger_check import check, open_reservations
from tests.portal.people import a_team, somebody

pytestmark = pytest.mark.django_db


def problems() -> list[str]:
    return [str(drift) for drift in check() if drift.subject != "database"]


def test_it_finds_nothing_wrong_with_good_books() -> None:
    user = somebody(5, team=a_team(5))
    ledger.reserve(user.pk, "run:a", Decimal(7))

    assert check() == []


@pytest.mark.parametrize("field", ["allowance", "own", "reserved"])
def test_it_finds_a_balance_that_its_entries_do_not_explain(field: str) -> None:
    user = somebody(5)

    CreditAccount.objects.filter(user=user).update(**{field: F(field) + 10_000})

    assert len(problems()) == 1
    assert f"credits of {user}: {field} is" in problems()[0]


def test_it_finds_a_pool_that_its_entries_do_not_explain() -> None:
    team = a_team(5)

    CreditAccount.objects.filter(team=team).update(reserved=Decimal(1))

    assert problems() == [f"credits of {team}: reserved is 1, its entries say 0"]


def test_it_finds_a_close_of_another_amount() -> None:
    user = somebody(5)
    ledger.reserve(user.pk, "run:a", Decimal(2))
    ledger.close("run:a", Decimal(2))
    ledger_guard.remove()

    LedgerEntry.objects.filter(kind="close").update(settled=Decimal(3))

    assert problems() == ["run:a: closed with another amount than was reserved"]


def test_it_finds_a_close_without_a_reservation() -> None:
    user = somebody(5)
    ledger.reserve(user.pk, "run:a", Decimal(2))
    ledger.close("run:a", Decimal(0))
    ledger_guard.remove()

    LedgerEntry.objects.filter(kind="close").update(subject="run:b")

    assert "run:b: closed with another amount than was reserved" in problems()


def test_it_finds_a_refund_of_more_than_was_charged() -> None:
    user = somebody(5)
    ledger.reserve(user.pk, "run:a", Decimal(2))
    ledger.close("run:a", Decimal(2))
    ledger.refund("run:a", Decimal(2), reason="x", actor_id=None)
    ledger_guard.remove()

    LedgerEntry.objects.filter(kind="close").update(
        settled=Decimal(1), released=Decimal(1), delta=Decimal(1), own_delta=Decimal(1)
    )

    assert "run:a: refunded more than was charged" in problems()


def test_it_lists_what_is_reserved_and_not_closed() -> None:
    user = somebody(5)
    for subject in ("run:a", "run:b"):
        ledger.reserve(user.pk, subject, Decimal(1))
    ledger.close("run:a", Decimal(1))

    assert [entry.subject for entry in open_reservations()] == ["run:b"]
