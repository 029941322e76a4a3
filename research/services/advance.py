"""What a worker does to a run: claim it, make one upstream call, record what came of it.

Three steps, each for rows that are due: `submit` sends a waiting run to its backend, `poll`
looks at many runs at once, `stop` asks the upstream to give up. None holds a transaction or a
lock while it waits for the network; every record is fenced (research.services.moves).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.services import network
from portal.wire.crash import crashpoint
from research.backends.base import Backend
from research.backends.table import open_backend
from research.models.backends import BackendPolicy
from research.models.runs import Run
from research.protocol.outcome import (
    Ended,
    Fault,
    Finished,
    Refused,
    Running,
    Snapshot,
    Stop,
    Submission,
    Submitted,
)
from research.protocol.polling import back_off, poll_interval
from research.protocol.recovery import AGAIN, NEXT, UNKNOWN, after_refusal
from research.protocol.states import State
from research.services import moves, stopping
from research.services.collect import collect, order_of, progress_of
from research.services.money import end_run
from research.services.moves import AT_REST, Event, FenceLost

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Runs polled in one batch."""
CONNECTIONS = 50
PATIENCE_WITH_BROKEN = 5
"""Unreadable snapshots in a row before a run is given up."""


# Due work


def due_to_submit(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(state__in=(State.QUEUED, State.SUBMITTING))


def due_to_poll(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(
        Q(state=State.RUNNING) | Q(state=State.CANCELLING, stop_sent_at__isnull=False)
    )


def due_to_stop(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(state=State.CANCELLING, stop_sent_at=None)


# Submit


def submit(run_id: UUID) -> None:
    """Send one waiting run to its backend, or decide that it never will be."""
    run = moves.lease_one(run_id, State.QUEUED, State.SUBMITTING)
    if run is None:
        return
    crashpoint("submit.leased")
    try:
        if _ended_before_sending(run):
            return
        backend = open_backend(run.backends[run.backend_index])
        if isinstance(backend, Refused):
            _record_refusal(run, backend, takes_key=False, has_sent=False)
            return
        if not _claim(run, backend):
            return
        crashpoint("submit.before_send")
        answer = network.call(backend.submit(order_of(run, backend.name)))
        crashpoint("submit.accepted")
        record_submission(run, answer, takes_key=backend.takes_key)
    except FenceLost:
        log.info("%s was moved by another worker", run.public_id)


def _ended_before_sending(run: Run) -> bool:
    now = timezone.now()
    if run.cancel_requested_at:
        end_run(run, State.CANCELLED, stop_reason="user")
    elif run.deadline_at <= now:
        end_run(run, State.FAILED, error_message="No upstream took the run in time.")
    else:
        return False
    return True


def _claim(run: Run, backend: Backend) -> bool:
    """Write down that the run is about to be sent; False when that may not happen again.

    A run found in `submitting` was left there by a process that died between sending and
    recording. With a key the upstream knows, sending again is harmless. Without one it is a
    question nobody can answer, and the operator has said what to do (SPEC 3.1).
    """
    notes = list(run.notes)
    again = State(run.state) is State.SUBMITTING
    if again and not backend.takes_key:
        if run.submissions > 1 or not _may_resubmit(backend.name):
            end_run(
                run, State.FAILED, error_message=_UNKNOWN_MESSAGE, notes=[*notes, _note_unknown(backend.name)]
            )
            return False
        notes.append(
            f"A worker stopped between sending this run to {backend.name} and recording the answer;"
            " the run was sent once more. You are charged once."
        )
    submissions = run.submissions + 1
    event = Event("submitting", {"backend": backend.name, "again": again})
    told = {"backend": backend.name, "sandbox": backend.sandbox, "submissions": submissions, "notes": notes}
    moves.move(run, State.SUBMITTING, [event], **told)
    for name, value in {**told, "state": State.SUBMITTING}.items():
        setattr(run, name, value)
    return True


_UNKNOWN_MESSAGE = "It is not known whether the upstream took the run; it was not sent again."


def _note_unknown(backend: str) -> str:
    return f"The answer of {backend} to the submission was lost ({UNKNOWN}); credits were returned."


def _may_resubmit(backend: str) -> bool:
    return BackendPolicy.objects.filter(name=backend, resubmit=True).exists()


def record_submission(run: Run, answer: Submission, *, takes_key: bool) -> None:
    if isinstance(answer, Refused):
        _record_refusal(run, answer, takes_key=takes_key, has_sent=True)
        return
    _record_acceptance(run, answer)


def _record_acceptance(run: Run, answer: Submitted) -> None:
    now = timezone.now()
    moves.move(
        run,
        State.RUNNING,
        [Event("running", {"backend": run.backend})],
        upstream_id=answer.upstream_id,
        ignored=sorted({*run.ignored, *answer.ignored}),
        submitted_at=now,
        deadline_at=now + timedelta(seconds=run.time_budget),
        next_run_at=moves.wake_at(now + _interval(0)),
        faults=0,
        **AT_REST,
    )


def _record_refusal(run: Run, refused: Refused, *, takes_key: bool, has_sent: bool) -> None:
    """Try again later, move on to the next backend, or fail, as the table says."""
    faults = run.faults + 1
    has_next = run.backend_index + 1 < len(run.backends)
    course = after_refusal(refused.fault, faults=faults, has_next=has_next, takes_key=takes_key)
    name = run.backends[run.backend_index]
    why = f"{name}: {refused.message}"
    if course is AGAIN:
        wait = back_off(faults, random.random(), refused.retry_after)
        _wait(run, wait, [Event("waiting", {"seconds": round(wait), "why": why})], faults=faults)
    elif course is NEXT:
        following = run.backends[run.backend_index + 1]
        _wait(
            run,
            0,
            [Event("failover", {"from": name, "to": following, "why": refused.message})],
            faults=0,
            submissions=0,
            backend_index=run.backend_index + 1,
            notes=[*run.notes, f"{name} refused the run ({refused.fault}): {refused.message}"],
        )
    else:
        unknown = has_sent and refused.fault in (Fault.LOST, Fault.BROKEN)
        notes = [*run.notes, _note_unknown(name)] if unknown else run.notes
        message = _UNKNOWN_MESSAGE if unknown else refused.message
        end_run(run, State.FAILED, error_message=message, notes=notes)


def _wait(run: Run, seconds: float, events: list[Event], **changes: object) -> None:
    at = timezone.now() + timedelta(seconds=seconds)
    moves.move(run, State.QUEUED, events, next_run_at=moves.wake_at(at), **AT_REST, **changes)


# Poll


def poll(limit: int = AT_ONCE) -> int:
    """Look at up to `limit` due runs at once; how many there were."""
    runs = moves.lease(due_to_poll(timezone.now()), limit)
    if not runs:
        return 0
    backends = {name: open_backend(name) for name in {run.backend for run in runs}}
    snapshots = network.call(_look_at_all([(run, backends[run.backend]) for run in runs]))
    crashpoint("poll.answered")
    quiet = [run for run, snapshot in zip(runs, snapshots, strict=True) if _record(run, snapshot)]
    _put_back_quiet(quiet)
    return len(runs)


async def _look_at_all(pairs: list[tuple[Run, Backend | Refused]]) -> list[Snapshot]:
    places = asyncio.Semaphore(CONNECTIONS)

    async def look(run: Run, backend: Backend | Refused) -> Snapshot:
        if isinstance(backend, Refused):
            return backend
        async with places:
            return await backend.poll(run.upstream_id)

    return await asyncio.gather(*(look(run, backend) for run, backend in pairs))


def _record(run: Run, snapshot: Snapshot) -> bool:
    """Record one snapshot; True when there is nothing to tell and the run only goes back."""
    try:
        return record_snapshot(run, snapshot)
    except FenceLost:
        log.info("%s was moved by another worker", run.public_id)
    except Exception:
        # One run's broken report must not keep its whole batch from being recorded.
        log.exception("could not record %s", run.public_id)
        _record_trouble(run, Refused(Fault.BROKEN, "The answer could not be recorded."))
    return False


def record_snapshot(run: Run, snapshot: Snapshot) -> bool:
    if isinstance(snapshot, Finished):
        collect(run, snapshot)
    elif isinstance(snapshot, Ended):
        stopping.record_end(run, snapshot)
    elif isinstance(snapshot, Refused):
        _record_trouble(run, snapshot)
    else:
        return _record_progress(run, snapshot)
    return False


def _record_progress(run: Run, snapshot: Running) -> bool:
    now = timezone.now()
    if State(run.state) is State.CANCELLING:
        stopping.wait_on(run, snapshot, now)
        return False
    reason = "user" if run.cancel_requested_at else "budget" if run.deadline_at <= now else ""
    if reason:
        stopping.begin(run, reason, now)
        return False
    progress, event = progress_of(run.progress, snapshot)
    if event is None:
        return not run.faults or _recovered(run)
    moves.move(
        run,
        State.RUNNING,
        [event],
        progress=progress,
        faults=0,
        next_run_at=moves.wake_at(now + _interval_of(run, now)),
        **AT_REST,
    )
    return False


def _recovered(run: Run) -> bool:
    log.info("%s answers again after %d failed polls", run.public_id, run.faults)
    return True


def _put_back_quiet(runs: Iterable[Run]) -> None:
    """A few statements for the whole batch: one for each distinct waiting time."""
    now = timezone.now()
    groups: dict[tuple[UUID, timedelta], list[Run]] = defaultdict(list)
    for run in runs:
        if run.lease_token is not None:
            groups[run.lease_token, _interval_of(run, now)].append(run)
    for (token, interval), members in groups.items():
        moves.put_back(members, token, now + interval)


def _record_trouble(run: Run, refused: Refused) -> None:
    """A poll failed: say so once, back off, and give up only where waiting cannot help."""
    now, faults = timezone.now(), run.faults + 1
    if refused.fault is Fault.GONE:
        end_run(run, State.FAILED, error_message="The upstream no longer knows this run: it expired there.")
    elif refused.fault is Fault.BROKEN and faults >= PATIENCE_WITH_BROKEN:
        end_run(run, State.FAILED, error_message=refused.message)
    elif run.deadline_at <= now or run.cancel_requested_at:
        stopping.without_answer(run, refused, now)
    else:
        wait = timedelta(seconds=back_off(faults, random.random(), refused.retry_after, base=2.0, cap=30.0))
        events = [Event("trouble", {"why": refused.message})] if faults == 1 else []
        at = min(now + wait, run.deadline_at)
        moves.move(run, State(run.state), events, faults=faults, next_run_at=moves.wake_at(at), **AT_REST)


def _interval(elapsed: float) -> timedelta:
    return timedelta(seconds=poll_interval(elapsed, settings.RESEARCH_POLL_SECONDS))


def _interval_of(run: Run, now: datetime) -> timedelta:
    elapsed = (now - (run.submitted_at or run.created_at)).total_seconds()
    return _interval(elapsed)


# Stop


def stop(run_id: UUID) -> None:
    """Ask the upstream to give up one run that is to be stopped."""
    run = moves.lease_one(run_id, State.CANCELLING)
    if run is None:
        return
    if run.stop_sent_at is not None:
        moves.move(run, State.CANCELLING, next_run_at=timezone.now(), **AT_REST)
        return
    backend = open_backend(run.backend)
    answer: Stop = backend if isinstance(backend, Refused) else network.call(backend.cancel(run.upstream_id))
    crashpoint("stop.answered")
    try:
        stopping.record_answer(run, answer, timezone.now())
    except FenceLost:
        log.info("%s was moved by another worker", run.public_id)
