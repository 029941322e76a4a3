"""Stopping a run that the upstream has: for its user, or because its budget is spent.

For a user the run ends as soon as the upstream has taken the request to stop; whatever it
still sends is dropped. For a spent budget its last words are waited for, up to `LAST_WORDS`,
since text so far makes an incomplete report and no text makes a failed run.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from portal.services.queue import ring_after_commit
from research.models.runs import Run
from research.protocol.outcome import Ended, Fault, Finished, Refused, Running, Stop
from research.protocol.polling import back_off
from research.protocol.states import State
from research.services import moves
from research.services.collect import collect
from research.services.money import end_run
from research.services.moves import AT_REST, Event

LAST_WORDS = timedelta(seconds=30)
BUDGET_SPENT = "The time budget was spent before there was any text."
UNCONFIRMED = "The upstream did not confirm the stop."
UNSUPPORTED = "This upstream cannot be stopped: it may go on unheard."


def begin(run: Run, reason: str, now: datetime) -> None:
    """From running to cancelling; the stop step makes the call."""
    moves.move(
        run,
        State.CANCELLING,
        [Event("stopping", {"reason": reason})],
        stop_reason=reason,
        stop_by=now + LAST_WORDS,
        faults=0,
        next_run_at=now,
        **AT_REST,
    )
    ring_after_commit("research.stop")


def record_answer(run: Run, answer: Stop, now: datetime) -> None:
    """What the upstream said to our request to stop."""
    if answer == "stopping" and run.stop_reason == "user":
        finish(run)
    elif answer == "stopping" or (isinstance(answer, Refused) and answer.fault is Fault.TERMINAL):
        # Its last snapshot tells how it ended.
        moves.move(run, State.CANCELLING, stop_sent_at=now, faults=0, next_run_at=now, **AT_REST)
    elif answer == "unsupported":
        finish(run, note=UNSUPPORTED)
    elif answer.fault is Fault.GONE:
        finish(run)
    else:
        without_answer(run, answer, now)


def without_answer(run: Run, refused: Refused, now: datetime) -> None:
    """The upstream could not be asked: try again, and in the end stop without it."""
    if State(run.state) is not State.CANCELLING:
        begin(run, "user" if run.cancel_requested_at else "budget", now)
    elif run.stop_by is not None and run.stop_by <= now:
        finish(run, note=UNCONFIRMED)
    else:
        faults = run.faults + 1
        wait = timedelta(seconds=back_off(faults, random.random(), refused.retry_after, cap=8.0))
        at = min(now + wait, run.stop_by or now)
        moves.move(run, State.CANCELLING, faults=faults, next_run_at=at, **AT_REST)


def wait_on(run: Run, snapshot: Running, now: datetime) -> None:
    """Still going upstream after the request to stop."""
    if run.stop_by is not None and run.stop_by > now:
        moves.move(run, State.CANCELLING, next_run_at=now + timedelta(seconds=1), **AT_REST)
    else:
        so_far = Finished(
            snapshot.text, found=snapshot.found, queries=snapshot.queries, fetched=snapshot.fetched
        )
        finish(run, so_far, UNCONFIRMED)


def record_end(run: Run, ended: Ended) -> None:
    """The job ended upstream without a report of its own."""
    if run.stop_reason:
        finish(run, ended.partial)
    elif ended.cancelled:
        end_run(run, State.FAILED, error_message=f"The upstream cancelled the run: {ended.message}")
    else:
        end_run(run, State.FAILED, error_message=ended.message)


def finish(run: Run, so_far: Finished | None = None, note: str = "") -> None:
    """The stop is done: cancelled for a user; for a budget, whatever was delivered so far."""
    notes = [*run.notes, note] if note else run.notes
    if run.stop_reason == "user":
        end_run(run, State.CANCELLED, charge=run.charge_cancelled, notes=notes)
    elif so_far and so_far.text.strip():
        collect(run, replace(so_far, complete=False, reason="time_budget"), notes=notes)
    else:
        end_run(run, State.FAILED, error_message=BUDGET_SPENT, notes=notes)
