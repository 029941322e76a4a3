"""Leases and fences: whoever lost the lease, or came too late, changes nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.services import ledger
from research.models.runs import Run
from research.protocol.outcome import Ended, Fault, Finished, Query, Refused, Running, Submitted
from research.protocol.states import State
from research.services import advance, moves, stopping, watch
from research.services.moves import Event, FenceLost
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db

ZOMBIES: dict[str, tuple[State, Callable[[Run], object]]] = {
    "accepted": (
        State.SUBMITTING,
        lambda run: advance.record_submission(run, Submitted("resp_z"), takes_key=False),
    ),
    "refused": (
        State.SUBMITTING,
        lambda run: advance.record_submission(run, Refused(Fault.OUTAGE, "no"), takes_key=False),
    ),
    "failed": (
        State.SUBMITTING,
        lambda run: advance.record_submission(run, Refused(Fault.INVALID, "no"), takes_key=False),
    ),
    "progress": (
        State.RUNNING,
        lambda run: watch.record_snapshot(run, Running(queries=(Query("tides"),))),
    ),
    "trouble": (
        State.RUNNING,
        lambda run: watch.record_snapshot(run, Refused(Fault.OUTAGE, "no")),
    ),
    "report": (State.RUNNING, lambda run: watch.record_snapshot(run, Finished("A report."))),
    "end": (State.RUNNING, lambda run: watch.record_snapshot(run, Ended("broke"))),
    "stop": (State.CANCELLING, lambda run: stopping.record_answer(run, "stopping", timezone.now())),
    "no stop": (
        State.CANCELLING,
        lambda run: stopping.record_answer(run, Refused(Fault.OUTAGE, "no"), timezone.now()),
    ),
}


def frozen(run: Run) -> dict[str, object]:
    row = Run.objects.get(pk=run.pk)
    return {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}


def leased_in(state: State) -> Run:
    run = ask(somebody())
    Run.objects.update(state=state, backend="agent", upstream_id="resp_u")
    leased = moves.lease_one(run.pk, state)
    assert leased is not None
    return leased


def expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize("name", ZOMBIES)
def test_it_drops_what_a_worker_brings_whose_lease_another_has(name: str) -> None:
    state, write = ZOMBIES[name]
    zombie = leased_in(state)
    expire(zombie)
    assert moves.lease_one(zombie.pk, state) is not None
    before, events = frozen(zombie), zombie.events.count()
    with pytest.raises(FenceLost):
        write(zombie)
    assert frozen(zombie) == before
    assert zombie.events.count() == events
    assert ledger.balance_of(zombie.user_id).reserved == zombie.price


@pytest.mark.parametrize("name", ZOMBIES)
def test_it_drops_what_comes_after_the_end(name: str) -> None:
    state, write = ZOMBIES[name]
    late = leased_in(state)
    moves.end(Run.objects.get(pk=late.pk), State.FAILED, [Event("failed")])
    before = frozen(late)
    with pytest.raises(FenceLost):
        write(late)
    assert frozen(late) == before


def test_it_puts_nothing_back_that_another_holds() -> None:
    zombie = leased_in(State.RUNNING)
    expire(zombie)
    moves.lease_one(zombie.pk, State.RUNNING)
    before = frozen(zombie)
    moves.put_back({timezone.now(): [zombie]})
    assert frozen(zombie) == before


def test_it_leases_only_what_is_due_and_free() -> None:
    run = ask(somebody())
    Run.objects.update(next_run_at=timezone.now() + timedelta(minutes=1))
    assert moves.lease_one(run.pk, State.QUEUED) is None
    Run.objects.update(next_run_at=timezone.now())
    assert moves.lease_one(run.pk, State.RUNNING) is None
    assert moves.lease_one(run.pk, State.QUEUED) is not None
    assert moves.lease_one(run.pk, State.QUEUED) is None
    expire(run)
    assert moves.lease_one(run.pk, State.QUEUED) is not None


def test_it_refuses_a_move_that_the_table_does_not_know() -> None:
    run = leased_in(State.RUNNING)
    with pytest.raises(ValueError, match="cannot go from running to queued"):
        moves.move(run, State.QUEUED)


def test_it_looks_at_once_at_a_held_run_that_is_to_be_stopped() -> None:
    run = leased_in(State.RUNNING)
    moves.flag(run, [Event("stop_requested")], cancel_requested_at=timezone.now())
    moves.put_back({timezone.now() + timedelta(hours=1): [run]})
    assert moves.lease_one(run.pk, State.RUNNING) is not None
