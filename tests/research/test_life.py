"""The invariants of STACK §4.5 under every order of events that hypothesis can think of.

The machine plays workers (some of them zombies with stale leases), the upstream, the user and
the clock against the real services and the real database; the upstream's words are values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.db.models import Sum
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.models.ledger import LedgerEntry
from portal.services import ledger, ledger_check
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.outcome import (
    Ended,
    Fault,
    Finished,
    Found,
    Query,
    Refused,
    Running,
    Snapshot,
    Stop,
    Submission,
    Submitted,
)
from research.protocol.states import MOVES, TERMINAL, State
from research.services import advance, moves, stopping, watch
from research.services.cancel import cancel_run
from research.services.moves import FenceLost
from tests.research.people import ask, somebody

refusals = st.sampled_from([Refused(fault, f"told {fault}") for fault in Fault])
submissions = st.one_of(st.just(Submitted("resp_upstream")), refusals)
snapshots = st.one_of(
    st.just(Running()),
    st.just(Running(queries=(Query("sky"),))),
    st.just(Running(text="half a report")),
    st.just(Finished("A report [1].", found=(Found("https://example.org/a", "A", number=1),))),
    st.just(Finished("Half of it", complete=False, reason="max_output_tokens")),
    st.just(Finished("  ")),
    st.just(Ended("broke upstream")),
    st.just(Ended("cancelled", cancelled=True, partial=Finished("so far", complete=False))),
    refusals,
)
stops = st.one_of(st.sampled_from(["stopping", "unsupported"]), refusals)
steps = st.one_of(
    st.just(("lease",)),
    st.tuples(st.just("submitted"), st.integers(0, 3), submissions),
    st.tuples(st.just("polled"), st.integers(0, 3), snapshots),
    st.tuples(st.just("stopped"), st.integers(0, 3), stops),
    st.just(("cancel",)),
    st.just(("lease_expires",)),
    st.just(("budget_ends",)),
    st.just(("patience_ends",)),
)


class Life:
    """One run, and every worker that ever held it."""

    def __init__(self, who: Principal, run_id: UUID) -> None:
        self.who = who
        self.run_id = run_id
        self.held: list[Run] = []
        self.seen = [State.QUEUED]

    def row(self) -> Run:
        return Run.objects.get(pk=self.run_id)

    def play(self, step: tuple[object, ...]) -> None:
        getattr(self, str(step[0]))(*step[1:])
        self.seen.append(State(self.row().state))

    def lease(self) -> None:
        Run.objects.filter(pk=self.run_id, completed_at=None).update(next_run_at=timezone.now())
        leased = moves.lease_one(self.run_id, *State)
        if leased is None:
            return
        if State(leased.state) is State.QUEUED:
            moves.move(leased, State.SUBMITTING, backend=leased.backends[leased.backend_index])
            leased.state = State.SUBMITTING
        self.held.append(leased)

    def submitted(self, worker: int, answer: Submission) -> None:
        self._record(
            worker, State.SUBMITTING, lambda run: advance.record_submission(run, answer, takes_key=False)
        )

    def polled(self, worker: int, answer: Snapshot) -> None:
        self._record(worker, State.RUNNING, lambda run: watch.record_snapshot(run, answer))
        self._record(worker, State.CANCELLING, lambda run: watch.record_snapshot(run, answer))

    def stopped(self, worker: int, answer: Stop) -> None:
        self._record(
            worker, State.CANCELLING, lambda run: stopping.record_answer(run, answer, timezone.now())
        )

    def cancel(self) -> None:
        try:
            cancel_run(self.who, self.run_id)
        except BadRequest:
            assert self.row().is_terminal

    def lease_expires(self) -> None:
        Run.objects.filter(pk=self.run_id).exclude(lease_token=None).update(
            lease_until=timezone.now() - timedelta(seconds=1)
        )

    def budget_ends(self) -> None:
        self._shift("deadline_at")

    def patience_ends(self) -> None:
        self._shift("stop_by")

    def _shift(self, column: str) -> None:
        past = timezone.now() - timedelta(seconds=1)
        Run.objects.filter(pk=self.run_id).exclude(**{column: None}).update(**{column: past})
        for run in self.held:
            if getattr(run, column):
                setattr(run, column, past)

    def _record(self, worker: int, state: State, record: Callable[[Run], object]) -> None:
        """Let one holder, who may be a zombie by now, write what it knows."""
        if not self.held:
            return
        run = copy.copy(self.held[worker % len(self.held)])
        if run.state != state:
            return
        before = self.row()
        stale = before.lease_token != run.lease_token or before.state != run.state
        try:
            record(run)
        except FenceLost:
            assert stale
        if stale:
            assert _frozen(self.row()) == _frozen(before)


def _frozen(run: Run) -> dict[str, object]:
    return {field.name: getattr(run, field.attname) for field in run._meta.concrete_fields}


def _check(life: Life, granted: Decimal) -> None:
    run = life.row()
    entries = LedgerEntry.objects.filter(subject=run.subject)
    kinds = sorted(entries.values_list("kind", flat=True))
    balance = ledger.balance_of(life.who.user_id)
    settled = entries.aggregate(Sum("settled"))["settled__sum"] or 0

    assert kinds in (["reserve"], ["close", "reserve"])  # I3
    assert (State(run.state) in TERMINAL) == (kinds == ["close", "reserve"])  # I4
    assert balance.available + balance.reserved + settled == granted  # I1
    assert balance.available >= 0  # I2
    assert balance.reserved == (0 if run.is_terminal else run.price)
    if run.state in (State.COMPLETED, State.INCOMPLETE):  # I7
        assert settled == run.price
        assert run.report.text.strip()
    else:
        assert settled == 0
    for before, after in zip(life.seen, life.seen[1:], strict=False):  # I8
        assert before is after or _reachable(before, after)
    numbers = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, run.event_seq + 1))  # I9


def _reachable(before: State, after: State) -> bool:
    reached = set(MOVES[before])
    while True:
        wider = reached | {further for state in reached for further in MOVES[state]}
        if wider == reached:
            return after in reached
        reached = wider


@pytest.mark.slow
@pytest.mark.django_db
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=6, max_size=30))
def test_it_keeps_state_money_and_events_right_in_every_order_of_events(
    played: list[tuple[object, ...]],
) -> None:
    who = somebody(credits=5)
    life = Life(who, ask(who).pk)
    for step in played:
        life.play(step)
        _check(life, Decimal(5))
    assert not ledger_check.check(), "what was written once stays, and so does what is wrong with it"
