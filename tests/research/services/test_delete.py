from __future__ import annotations

from decimal import Decimal

import pytest

from portal.models.audit import AuditEntry
from portal.services import ledger
from portal.services.principal import Principal
from portal.wire.errors import NotFound
from research.models.runs import Run
from research.protocol.states import State
from research.queries import find_run, list_runs
from research.services.delete import delete_run
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> Principal:
    return somebody()


def test_it_hides_a_run_from_every_door_and_keeps_its_row(who: Principal) -> None:
    run = ask(who)
    delete_run(who, run.pk)
    with pytest.raises(NotFound):
        find_run(who, run.pk)
    assert list_runs(who, 10).runs == []
    assert Run.objects.filter(pk=run.pk).exists()


def test_it_stops_a_run_that_waits_and_gives_its_credits_back(who: Principal) -> None:
    run = ask(who)
    delete_run(who, run.pk)
    run.refresh_from_db()
    assert run.state == State.CANCELLED
    assert ledger.balance_of(who.user_id).available == Decimal(10)


def test_it_asks_the_worker_to_stop_a_run_that_is_held(who: Principal) -> None:
    run = ask(who)
    Run.objects.filter(pk=run.pk).update(state=State.RUNNING, backend="agent", upstream_id="resp_u")
    delete_run(who, run.pk)
    run.refresh_from_db()
    assert (run.state, run.cancel_requested_at is not None) == (State.RUNNING, True)


def test_it_knows_no_run_twice_and_none_of_others(who: Principal) -> None:
    run = ask(who)
    with pytest.raises(NotFound):
        delete_run(somebody(), run.pk)
    delete_run(who, run.pk)
    with pytest.raises(NotFound):
        delete_run(who, run.pk)


def test_it_is_in_the_audit(who: Principal) -> None:
    run = ask(who)
    delete_run(who, run.pk)
    assert AuditEntry.objects.filter(action="run.deleted", target=run.public_id).count() == 1
