from __future__ import annotations

from decimal import Decimal

import pytest

from portal.models.ledger import LedgerEntry
from portal.services import ledger
from portal.services.ledger_check import check
from tests.portal.admin.site import Site, told
from tests.portal.admin.test_people import audited
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return Site()


def a_charge(settled: int) -> LedgerEntry:
    user = somebody(10)
    ledger.reserve(user.pk, f"run:{user.pk}", Decimal(5))
    ledger.close(f"run:{user.pk}", Decimal(settled))
    return LedgerEntry.objects.get(subject=f"run:{user.pk}", kind="close")


def test_it_refunds_a_charge_after_asking_why(site: Site) -> None:
    entry = a_charge(3)
    assert 'name="reason"' in site.act("refund", entry).text

    answer = site.act("refund", entry, confirmed="yes", reason="a poor report")

    assert told(answer) == ["1 refunded."]
    assert LedgerEntry.objects.get(kind="refund").delta == 3
    assert audited(site, "credits.refunded")
    assert check() == []


def test_it_refunds_once(site: Site) -> None:
    entry = a_charge(3)
    site.act("refund", entry, confirmed="yes", reason="a poor report")

    answer = site.act("refund", entry, confirmed="yes", reason="a poor report")

    assert "refunded before" in told(answer)[0]
    assert LedgerEntry.objects.filter(kind="refund").count() == 1


def test_it_refunds_nothing_that_charged_nothing(site: Site) -> None:
    answer = site.act("refund", a_charge(0), confirmed="yes", reason="a poor report")

    assert told(answer) == ["Choose entries that charged something."]
