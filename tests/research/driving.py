"""A worker for one run, in the test's own thread: what the sweeper would ring for, until the end."""

from __future__ import annotations

import time
from uuid import UUID

from django.utils import timezone

from research.models.runs import Run
from research.protocol.states import State
from research.services import advance, watch

PATIENCE = 30.0


def step(run_id: UUID) -> Run:
    """Whatever is due for this run, or nothing."""
    run = Run.objects.get(pk=run_id)
    if State(run.state) in (State.QUEUED, State.SUBMITTING):
        advance.submit(run_id)
    elif run.state == State.CANCELLING and run.stop_sent_at is None:
        advance.stop(run_id)
    else:
        watch.poll()
    return Run.objects.select_related("report").get(pk=run_id)


def drive(run: Run, *, hurry: bool = True) -> Run:
    """Work until the run has ended; `hurry` skips waits that back-off asked for."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if hurry:
            Run.objects.filter(pk=run.pk, completed_at=None).update(next_run_at=timezone.now())
        run = step(run.pk)
        if run.is_terminal:
            return run
        time.sleep(0.02)
    raise AssertionError(f"{run} did not end: {run.notes} {run.error_message}")


def drive_to(run: Run, *states: State) -> Run:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if run.state in states:
            return run
        run = step(run.pk)
        time.sleep(0.02)
    raise AssertionError(f"{run} never became {states}")
