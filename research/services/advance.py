"""The single steps of a run: sending it to its backend, and asking the upstream to stop it.

A step claims one row that is due, makes one upstream call and records what came of it. None holds
a transaction, a lock or a connection while it waits for the network; every record is fenced
(research.services.moves). What the upstream has is looked at in research.services.watch.
"""

from __future__ import annotations

import logging
import random
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from portal.services import network
from portal.services.transactions import insist
from portal.wire.crash import crashpoint
from research.backends.base import Backend, Trace
from research.backends.table import is_set_up, open_backend
from research.models.backends import BackendPolicy
from research.models.runs import Run
from research.protocol.outcome import Fault, Order, Refused, Stop, Submission, Submitted
from research.protocol.polling import back_off
from research.protocol.recovery import AGAIN, NEXT, UNKNOWN, after_refusal
from research.protocol.states import State
from research.services import moves, stopping
from research.services.attaching import with_attached
from research.services.collect import order_of
from research.services.money import end_run
from research.services.moves import AT_REST, Event, FenceLost
from research.services.watch import first_look

log = logging.getLogger(__name__)

# Runs that this process has sent and not recorded yet. Their leases may end while the database is away:
# then it is this process, which lives, that knows what became of them, and no second sending of its own.
_sending: set[UUID] = set()


def due_to_submit(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(state__in=(State.QUEUED, State.SUBMITTING))


def due_to_stop(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(state=State.CANCELLING, stop_sent_at=None)


# Submit


def submit_next() -> bool:
    """Send the run that has waited longest; False when none is due."""
    return _submit(moves.lease(due_to_submit(timezone.now()).exclude(pk__in=[*_sending]), 1))


def submit(run_id: UUID) -> bool:
    """Send this run, if it is due."""
    return _submit(moves.lease(due_to_submit(timezone.now()).filter(pk=run_id), 1))


def _submit(leased: list[Run]) -> bool:
    for run in leased:
        crashpoint("submit.leased")
        _sending.add(run.pk)
        try:
            _send(run)
        except FenceLost:
            log.info("%s was moved by another worker", run.public_id)
        finally:
            _sending.discard(run.pk)
    return bool(leased)


def _send(run: Run) -> None:
    """Send one waiting run to its backend, or decide that it never will be."""
    trace = _trace_of(run)
    if isinstance(trace, Submitted):
        _take_over(run, trace)
        return
    if _ended_before_sending(run):
        return
    backend = open_backend(run.backends[run.backend_index])
    if isinstance(backend, Refused):
        _record_refusal(run, backend, takes_key=False, has_sent=False)
        return
    order = _order(run, backend)
    if isinstance(order, Refused):
        _record_refusal(run, order, takes_key=False, has_sent=False)
        return
    if not _claim(run, backend, again=trace == "unknown"):
        return
    crashpoint("submit.before_send")
    answer = network.call(backend.submit(order))
    crashpoint("submit.accepted")
    insist(lambda: record_submission(run, answer, takes_key=backend.takes_key))


def _order(run: Run, backend: Backend) -> Order | Refused:
    order = order_of(run, backend.name)
    return with_attached(order) if backend.carries_attached else order


def _trace_of(run: Run) -> Trace:
    """What a process that died while sending this run has left upstream; nobody has sent one that waits."""
    if State(run.state) is not State.SUBMITTING:
        return "unsent"
    backend = open_backend(run.backend)
    if isinstance(backend, Refused):
        return "unknown"
    return network.call(backend.trace(order_of(run, backend.name)))


def _take_over(run: Run, found: Submitted) -> None:
    """A stop that was asked for meanwhile is passed on as soon as the run is looked at."""
    note = (
        f"A worker stopped between sending this run to {run.backend} and recording the answer;"
        " the run was found there and goes on."
    )
    insist(lambda: _record_acceptance(run, found, notes=[*run.notes, note]))


def _ended_before_sending(run: Run) -> bool:
    now = timezone.now()
    notes = [*run.notes, _note_unheard(run.backend)] if State(run.state) is State.SUBMITTING else run.notes
    if run.cancel_requested_at:
        end_run(run, State.CANCELLED, stop_reason="user", notes=notes)
    elif run.deadline_at <= now:
        end_run(run, State.FAILED, error_message="No upstream took the run in time.", notes=notes)
    else:
        return False
    return True


def _claim(run: Run, backend: Backend, *, again: bool) -> bool:
    """Write down that the run is about to be sent; False when that may not happen `again`.

    That is a run which a process left in `submitting` that died between sending and recording. With a
    key the upstream knows, sending again is harmless. Without one it is a question nobody can answer,
    and the operator has said what to do (SPEC 3.1).
    """
    notes = list(run.notes)
    if again and not backend.takes_key:
        if run.submissions > 1 or not _may_resubmit(backend.name):
            end_run(
                run, State.FAILED, error_message=_UNKNOWN_MESSAGE, notes=[*notes, _note_unknown(backend.name)]
            )
            return False
        notes.append(
            f"A worker stopped between sending this run to {backend.name} and recording the answer;"
            " the run was sent once more. It is charged once."
        )
    was_unsent = State(run.state) is State.SUBMITTING and not again
    submissions = run.submissions if was_unsent else run.submissions + 1
    event = Event("submitting", {"backend": backend.name, "again": again})
    told = {"backend": backend.name, "sandbox": backend.sandbox, "submissions": submissions, "notes": notes}
    moves.move(run, State.SUBMITTING, [event], **told)
    for name, value in {**told, "state": State.SUBMITTING}.items():
        setattr(run, name, value)
    return True


_UNKNOWN_MESSAGE = "It is not known whether the upstream took the run; it was not sent again."


def _note_unknown(backend: str) -> str:
    return f"The answer of {backend} to the submission was lost ({UNKNOWN}); credits were returned."


def _note_unheard(backend: str) -> str:
    return f"It is not known whether {backend} took the run ({UNKNOWN}): there it may go on unheard."


def _may_resubmit(backend: str) -> bool:
    return BackendPolicy.objects.filter(name=backend, resubmit=True).exists()


def record_submission(run: Run, answer: Submission, *, takes_key: bool) -> None:
    if isinstance(answer, Refused):
        _record_refusal(run, answer, takes_key=takes_key, has_sent=True)
        return
    _record_acceptance(run, answer)


def _record_acceptance(run: Run, answer: Submitted, **changes: object) -> None:
    now = timezone.now()
    moves.move(
        run,
        State.RUNNING,
        [Event("running", {"backend": run.backend})],
        upstream_id=answer.upstream_id,
        ignored=sorted({*run.ignored, *answer.ignored}),
        submitted_at=now,
        deadline_at=now + timedelta(seconds=run.time_budget),
        next_run_at=moves.wake_at(first_look(now, run.backend)),
        faults=0,
        **AT_REST,
        **changes,
    )


def _record_refusal(run: Run, refused: Refused, *, takes_key: bool, has_sent: bool) -> None:
    """Try again later, move on to the next backend, or fail, as the table says."""
    faults = run.faults + 1
    index = _next_index(run)
    course = after_refusal(refused.fault, faults=faults, has_next=index is not None, takes_key=takes_key)
    name = run.backends[run.backend_index]
    why = f"{name}: {refused.message}"
    if course is AGAIN:
        wait = back_off(faults, random.random(), refused.retry_after)
        _wait(run, wait, [Event("waiting", {"seconds": round(wait), "why": why})], faults=faults)
    elif course is NEXT and index is not None:
        _move_on(run, index, refused)
    else:
        unknown = has_sent and refused.fault in (Fault.LOST, Fault.BROKEN)
        notes = [*run.notes, _note_unknown(name)] if unknown else run.notes
        message = _UNKNOWN_MESSAGE if unknown else refused.message
        end_run(run, State.FAILED, error_message=message, notes=notes)


def _next_index(run: Run) -> int | None:
    """The place of the next backend that somebody has set up; None when there is none."""
    following = range(run.backend_index + 1, len(run.backends))
    return next((index for index in following if is_set_up(run.backends[index])), None)


def _move_on(run: Run, index: int, refused: Refused) -> None:
    """To the next backend. One that nobody has set up has refused nothing: of it nothing is told."""
    name, following = run.backends[run.backend_index], run.backends[index]
    events = [Event("failover", {"from": name, "to": following, "why": refused.message})]
    note = f"{name} refused the run ({refused.fault}): {refused.message}"
    is_told = refused.fault is not Fault.ABSENT
    _wait(
        run,
        0,
        events if is_told else [],
        faults=0,
        submissions=0,
        backend_index=index,
        notes=[*run.notes, note] if is_told else run.notes,
    )


def _wait(run: Run, seconds: float, events: list[Event], **changes: object) -> None:
    """Back into the queue; at its deadline it is looked at whatever it waits for."""
    at = min(timezone.now() + timedelta(seconds=seconds), run.deadline_at)
    moves.move(run, State.QUEUED, events, next_run_at=moves.wake_at(at), **AT_REST, **changes)


# Stop


def stop_next() -> bool:
    """Ask the upstream to give up the run that has waited longest for it; False when none is due."""
    return _stop(moves.lease(due_to_stop(timezone.now()), 1))


def stop(run_id: UUID) -> bool:
    """Ask the upstream to give up this run, if that is due."""
    return _stop(moves.lease(due_to_stop(timezone.now()).filter(pk=run_id), 1))


def _stop(leased: list[Run]) -> bool:
    for run in leased:
        backend = open_backend(run.backend)
        answer: Stop = (
            backend if isinstance(backend, Refused) else network.call(backend.cancel(run.upstream_id))
        )
        crashpoint("stop.answered")
        try:
            _record_stop(run, answer)
        except FenceLost:
            log.info("%s was moved by another worker", run.public_id)
    return bool(leased)


def _record_stop(run: Run, answer: Stop) -> None:
    insist(lambda: stopping.record_answer(run, answer, timezone.now()))
