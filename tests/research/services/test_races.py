"""Threads against the database, on both engines: one winner, and money right to the last digit."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import TypeVar
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import close_old_connections, connections
from django.utils import timezone

from portal.models.users import User
from portal.services import ledger, ledger_check
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from research.models.runs import Run
from research.protocol.outcome import Finished, Running, Submitted
from research.protocol.states import State
from research.services import advance, moves, stopping, watch
from research.services.cancel import cancel_run
from research.services.moves import FenceLost
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)
Result = TypeVar("Result")


def at_once(*work: Callable[[], Result]) -> list[Result]:
    """Run everything in its own thread, let loose together."""
    start = Barrier(len(work))

    def run(job: Callable[[], Result]) -> Result:
        start.wait()
        try:
            return job()
        finally:
            close_old_connections()
            connections.close_all()

    with ThreadPoolExecutor(len(work)) as threads:
        return [future.result() for future in [threads.submit(run, job) for job in work]]


def test_it_makes_one_run_of_twenty_starts_with_one_key() -> None:
    who = somebody(credits=10)
    runs = at_once(*[lambda: ask(who, idempotency_key="same") for _ in range(20)])
    assert len({run.pk for run in runs}) == 1
    assert Run.objects.count() == 1
    assert ledger.balance_of(who.user_id).reserved == 2


def test_it_admits_one_of_twenty_on_a_balance_for_one() -> None:
    who = somebody(credits=2)
    runs = at_once(*[partial(ask, who, idempotency_key=f"key {n}") for n in range(20)])
    outcomes = Counter((run.state, run.error_code) for run in runs)
    assert outcomes == {(State.QUEUED, ""): 1, (State.FAILED, "insufficient_quota"): 19}
    assert ledger.balance_of(who.user_id).available == 0
    assert not ledger_check.check()


def test_it_never_lets_more_runs_in_flight_than_allowed() -> None:
    who = somebody(credits=100)
    User.objects.update(parallel_runs=3)
    runs = at_once(*[lambda: ask(who) for _ in range(12)])
    assert Counter(run.state for run in runs) == {State.QUEUED: 3, State.FAILED: 9}


def test_it_leases_a_run_to_one_of_eight_workers() -> None:
    run = ask(somebody())
    leases = at_once(*[lambda: moves.lease_one(run.pk, State.QUEUED) for _ in range(8)])
    assert sum(lease is not None for lease in leases) == 1


def running(who: Principal) -> Run:
    run = moves.lease_one(ask(who).pk, State.QUEUED)
    assert run is not None
    moves.move(run, State.SUBMITTING, backend="agent")
    run.state = State.SUBMITTING
    advance.record_submission(run, Submitted("resp_upstream"), takes_key=False)
    run.refresh_from_db()
    return run


def finish(run_id: UUID, wait: float) -> None:
    """A poller that has the finished answer in hand."""
    time.sleep(wait)
    Run.objects.filter(pk=run_id, lease_token=None, completed_at=None).update(next_run_at=timezone.now())
    run = moves.lease_one(run_id, State.RUNNING)
    if run is None:
        return
    try:
        watch.record_snapshot(run, Finished("A report."))
    except FenceLost:
        return


def give_up(run_id: UUID, wait: float) -> None:
    """A worker that finds the upstream still busy and, once asked to, stops it there."""
    time.sleep(wait)
    for _ in range(2):
        Run.objects.filter(pk=run_id, lease_token=None, completed_at=None).update(next_run_at=timezone.now())
        run = moves.lease_one(run_id, State.RUNNING, State.CANCELLING)
        if run is None:
            return
        try:
            if run.state == State.RUNNING and not watch.record_snapshot(run, Running()):
                continue
            if run.state == State.CANCELLING:
                stopping.record_answer(run, "stopping", timezone.now())
                return
            moves.put_back({timezone.now(): [run]})
        except FenceLost:
            return


def stop(who: Principal, run_id: UUID, wait: float) -> None:
    time.sleep(wait)
    try:
        cancel_run(who, run_id)
    except BadRequest:
        return


@pytest.mark.slow
def test_it_ends_two_hundred_races_of_stop_and_completion_in_one_state_each() -> None:
    chance = random.Random(7)
    who = somebody(credits=1000)
    ends: Counter[str] = Counter()
    for _ in range(200):
        before = ledger.balance_of(who.user_id).available
        run = running(who)
        at_once(
            partial(finish, run.pk, chance.random() / 200),
            partial(stop, who, run.pk, chance.random() / 200),
            partial(give_up, run.pk, chance.random() / 100),
        )
        while not run.is_terminal:
            give_up(run.pk, 0)
            finish(run.pk, 0)
            run.refresh_from_db()
        ends[run.state] += 1
        assert run.is_terminal
        assert run.events.filter(kind__in=["completed", "cancelled", "failed"]).count() == 1
        paid = before - ledger.balance_of(who.user_id).available
        assert paid == (2 if run.state == State.COMPLETED else 0)
    assert not ledger_check.check()
    assert ends[State.COMPLETED] > 0
    assert ends[State.CANCELLED] > 0


def test_it_sends_nothing_twice_that_it_is_sending_itself(sandbox: SandboxServer) -> None:
    """The database was away for longer than the lease: this process lives, and has the answer."""
    run = ask(somebody(), "Tides? [sandbox:slow=0.7]")

    def send_again() -> bool:
        while Run.objects.get(pk=run.pk).state != State.SUBMITTING:
            time.sleep(0.02)
        Run.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        return advance.submit_next()

    assert at_once(advance.submit_next, send_again) == [True, False]
    run.refresh_from_db()
    assert (run.state, run.submissions) == (State.RUNNING, 1)
    assert sandbox.counts().agent_submissions(run.question) == 1


@pytest.mark.cluster
def test_it_takes_nothing_from_a_living_worker_because_its_own_clock_is_fast() -> None:
    run = ask(somebody())
    assert moves.lease_one(run.pk, State.QUEUED) is not None
    later = timezone.now() + timedelta(hours=1)
    with patch.object(timezone, "now", lambda: later):
        assert moves.lease_one(run.pk, State.QUEUED) is None


@pytest.mark.cluster
def test_it_ends_no_lease_at_its_start_where_others_may_be_at_work() -> None:
    run = ask(somebody())
    assert moves.lease_one(run.pk, State.QUEUED) is not None
    moves.release_all_leases()
    assert moves.lease_one(run.pk, State.QUEUED) is None
