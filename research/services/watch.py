"""Watching the runs that an upstream has: many at once, in batches with a fence per row.

A batch is leased in one statement, looked at together, and recorded: the many of which there is
nothing to tell go back in one statement, the others each in a transaction of their own. A look
that takes long is recorded when it is done, and nobody waits for it. Looking and recording each
keep within the lease, or renew it: a batch that outlived its lease would be leased by the next
worker, who would outlive his as well, and nothing would ever be recorded.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.services import network
from portal.services.transactions import insist
from portal.wire.crash import crashpoint
from research.backends.base import SHARE_OF_LEASE, Backend
from research.backends.table import open_backend
from research.models.runs import Run
from research.protocol.outcome import Ended, Fault, Finished, Refused, Running, Snapshot
from research.protocol.polling import back_off, poll_interval
from research.protocol.states import State
from research.services import moves, stopping
from research.services.collect import collect, progress_of, seconds_to_collect
from research.services.money import end_run
from research.services.moves import AT_REST, Event, FenceLost

log = logging.getLogger(__name__)

AT_ONCE = 1_000
"""Runs polled in one batch."""
CONNECTIONS = 100
WAVE = 1.0
"""Seconds after which what is done of a batch is recorded, and those to come join the next one."""
PATIENCE_WITH_BROKEN = 5
"""Unreadable snapshots in a row before a run is given up."""
UNREAD = ("question", "title", "options", "metadata", "parameters", "backends", "ignored", "fingerprint")
"""Columns that watching has no use for."""
GLANCE = (
    *("id", "state", "backend", "upstream_id", "created_at", "submitted_at", "deadline_at"),
    *("next_run_at", "cancel_requested_at", "faults", "lease_token"),
)
"""Columns that a look needs of which there is nothing to tell, which nearly all are."""

Look = Snapshot | None
"""None: there was no time left to look."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A look that is over. `since`: when the run was leased, in `time.monotonic`'s seconds."""

    run: Run
    look: Look
    since: float

    @property
    def is_silent(self) -> bool:
        """Whether the run goes on and there is nothing to tell of it."""
        run = self.run
        is_wanted = run.state == State.RUNNING and run.cancel_requested_at is None
        return self.look == Running() and is_wanted and run.deadline_at > timezone.now()


def due_to_poll(now: datetime) -> QuerySet[Run]:
    return moves.due(now).filter(
        Q(state=State.RUNNING) | Q(state=State.CANCELLING, stop_sent_at__isnull=False)
    )


class Watch:
    """A worker's spell at the window: backends are opened once in it."""

    def __init__(self, open_: Callable[[str], Backend | Refused] = open_backend) -> None:
        self._open = cache(open_)
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._looking: dict[asyncio.Task[Look], tuple[Run, float]] = {}
        self._leased: list[Run] = []
        self._since = 0.0

    @property
    def is_looking(self) -> bool:
        """Whether looks of calls before are under way."""
        return bool(self._looking)

    def poll(self, limit: int = AT_ONCE) -> int:
        """Look at due runs, at most `limit` at once; how many were in hand, those of calls before
        included."""
        in_hand = self.take(limit)
        self.look()
        return in_hand

    def take(self, limit: int = AT_ONCE) -> int:
        """Lease due runs until `limit` are in hand; how many that are."""
        self._since = time.monotonic()
        room = limit - len(self._looking)
        self._leased = moves.lease(due_to_poll(timezone.now()), room, only=GLANCE) if room > 0 else []
        return len(self._leased) + len(self._looking)

    def look(self) -> None:
        """Look at the runs that were leased, and record all looks that are done soon."""
        fresh, self._leased = [(run, self._open(run.backend)) for run in self._leased], []
        if fresh or self._looking:
            self._record(network.call(self._look(fresh, self._since)))

    def finish(self) -> None:
        """Wait for the looks that are still under way."""
        while self._looking:
            self.look()

    def _record(self, looks: Sequence[Looked]) -> None:
        crashpoint("poll.answered")
        _record_all(looks)

    async def _look(self, pairs: Sequence[tuple[Run, Backend | Refused]], since: float) -> list[Looked]:
        """Begin to look at these, and wait a while for them; all looks that are done then.

        A look may take `SHARE_OF_LEASE`, and none begins later than that: all end within the lease.
        """
        loop = asyncio.get_running_loop()
        last_start = loop.time() + settings.RESEARCH_LEASE_SECONDS * SHARE_OF_LEASE
        begun = {loop.create_task(self._look_at(*pair, last_start)): (pair[0], since) for pair in pairs}
        self._looking |= begun
        until = asyncio.ALL_COMPLETED if begun else asyncio.FIRST_COMPLETED
        await asyncio.wait(begun or self._looking, timeout=WAVE, return_when=until)
        done = [task for task in self._looking if task.done()]
        return [Looked(run, task.result(), at) for task in done for run, at in [self._looking.pop(task)]]

    async def _look_at(self, run: Run, backend: Backend | Refused, last_start: float) -> Look:
        if isinstance(backend, Refused):
            return backend
        async with self._places:
            if asyncio.get_running_loop().time() > last_start:
                return None
            try:
                return await backend.poll(run.upstream_id)
            except Exception:
                # One poisonous answer must not keep its whole batch from being recorded.
                log.exception("could not look at %s", run.public_id)
                return Refused(Fault.BROKEN, "The answer could not be read.")


def poll(limit: int = AT_ONCE) -> int:
    """One batch by itself."""
    watch = Watch()
    found = watch.poll(limit)
    watch.finish()
    return found


# Recording


class Held:
    """Leased runs that are not recorded yet; their lease is renewed while that takes its time."""

    def __init__(self, runs: Sequence[Run], since: float) -> None:
        """`since`: when they were leased, in `time.monotonic`'s seconds."""
        self._runs = {run.pk: run for run in runs}
        self._since = since

    def hold(self, longer: float = 0.0) -> None:
        """Renew the lease when a third of it is over, or `longer` seconds of work are to come."""
        if longer or time.monotonic() - self._since > settings.RESEARCH_LEASE_SECONDS / 3:
            insist(lambda: moves.renew(list(self._runs.values()), longer=timedelta(seconds=longer)))
            self._since = time.monotonic()

    def let_go(self, *runs: Run) -> None:
        for run in runs:
            self._runs.pop(run.pk, None)


def _record_all(looks: Sequence[Looked]) -> None:
    """Those that go on first: they wait for no report to be rendered. Their next look is an interval after
    this one, however long recording takes."""
    now = timezone.now()
    held = Held([one.run for one in looks], min((one.since for one in looks), default=0.0))
    unseen = [one.run for one in looks if one.look is None]
    quiet = [one.run for one in looks if one.is_silent]
    told = _read_whole([one for one in looks if one.look is not None and not one.is_silent])
    for run, snapshot in told:
        if isinstance(snapshot, Running):
            held.hold(_seconds_for(run, snapshot))
            if _record(run, snapshot):
                quiet.append(run)
            else:
                held.let_go(run)
    _put_back(quiet, unseen, now)
    held.let_go(*quiet, *unseen)
    for run, snapshot in told:
        if not isinstance(snapshot, Running):
            held.hold(_seconds_for(run, snapshot))
            _record(run, snapshot)
            held.let_go(run)


def _read_whole(looks: Sequence[Looked]) -> list[tuple[Run, Snapshot]]:
    if not looks:
        return []
    rows = insist(lambda: moves.whole([one.run for one in looks], without=UNREAD))
    return [(rows[one.run.pk], one.look) for one in looks if one.look is not None and one.run.pk in rows]


def _seconds_for(run: Run, snapshot: Snapshot) -> float:
    """What a report made of `snapshot` may take to be rendered; 0 when that is no matter."""
    if isinstance(snapshot, Ended):
        return _seconds_for(run, snapshot.partial) if snapshot.partial else 0.0
    if isinstance(snapshot, Finished) or (isinstance(snapshot, Running) and run.stop_reason):
        return seconds_to_collect(snapshot.text)
    return 0.0


def _record(run: Run, snapshot: Snapshot) -> bool:
    """Record one snapshot; True when there is nothing to tell and the run only goes back."""
    try:
        return insist(lambda: record_snapshot(run, snapshot))
    except FenceLost:
        log.info("%s was moved by another worker", run.public_id)
    except (OperationalError, InterfaceError):
        raise  # the database, not the run
    except Exception:
        # One run's broken report must not keep its whole batch from being recorded.
        log.exception("could not record %s", run.public_id)
        if not isinstance(snapshot, Refused):
            _record(run, Refused(Fault.BROKEN, "The answer could not be recorded."))
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
        return True
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


def _put_back(quiet: Sequence[Run], unseen: Sequence[Run], now: datetime) -> None:
    """Two statements at most for those of one lease, however many they are. `now`: when they were looked
    at."""
    moments: dict[datetime, list[Run]] = defaultdict(list)
    for run in quiet:
        if run.faults:
            log.info("%s answers again after %d failed polls", run.public_id, run.faults)
        moments[now + _interval_of(run, now)].append(run)
    insist(lambda: moves.put_back(moments, faults=0))
    insist(lambda: moves.put_back({now: unseen}))


def _record_trouble(run: Run, refused: Refused) -> None:
    """A poll failed: say so once, back off, and give up only where waiting cannot help."""
    now, faults = timezone.now(), run.faults + 1
    if refused.fault is Fault.GONE and run.stop_reason:
        stopping.finish(run)
    elif refused.fault is Fault.GONE:
        end_run(run, State.FAILED, error_message="The upstream no longer knows this run: it expired there.")
    elif run.deadline_at <= now or run.cancel_requested_at:
        stopping.without_answer(run, refused, now)
    elif refused.fault is Fault.BROKEN and faults >= PATIENCE_WITH_BROKEN:
        end_run(run, State.FAILED, error_message=refused.message)
    else:
        wait = timedelta(seconds=back_off(faults, random.random(), refused.retry_after, base=2.0, cap=30.0))
        events = [Event("trouble", {"why": refused.message})] if faults == 1 else []
        at = min(now + wait, run.deadline_at)
        moves.move(run, State(run.state), events, faults=faults, next_run_at=moves.wake_at(at), **AT_REST)


def first_look(now: datetime, backend: str) -> datetime:
    """When to look at a run that the upstream has just taken."""
    return now + _interval(0, backend)


def _interval(elapsed: float, backend: str) -> timedelta:
    return timedelta(seconds=poll_interval(elapsed, settings.RESEARCH_POLL_SECONDS, backend))


def _interval_of(run: Run, now: datetime) -> timedelta:
    elapsed = (now - (run.submitted_at or run.created_at)).total_seconds()
    return _interval(elapsed, run.backend)
