"""The one place that moves a run: leases, fenced compare-and-set writes, events, hints.

A worker leases a row, makes one upstream call with no transaction open, and writes back under
the token it got. A write whose token or state no longer matches changes nothing and raises
`FenceLost`: its writer was a zombie, and drops what it knows (STACK §4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from portal.live.publish import publish_after_commit
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.states import PUBLIC, TERMINAL, State, may_move

AT_REST: dict[str, Any] = {"lease_token": None, "lease_until": None}


class FenceLost(Exception):
    """Another process moved this run first. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


def due(now: datetime) -> QuerySet[Run]:
    """Rows a worker may lease: their time has come and nobody holds them."""
    return Run.objects.filter(Q(lease_token=None) | Q(lease_until__lt=now), next_run_at__lte=now)


def lease(rows: QuerySet[Run], limit: int) -> list[Run]:
    """Lease up to `limit` of the due `rows`, oldest first; one token fences this whole batch."""
    now, token = timezone.now(), uuid4()
    until = now + timedelta(seconds=settings.RESEARCH_LEASE_SECONDS)
    with transaction.atomic():
        pick = rows.order_by("next_run_at").values_list("pk", flat=True)
        if connection.features.has_select_for_update_skip_locked:
            pick = pick.select_for_update(skip_locked=True)
        found = list(pick[:limit])
        if not found:
            return []
        # The predicate again: on SQLite nothing but this statement guards the rows.
        due(now).filter(pk__in=found).update(lease_token=token, lease_until=until, attempt=F("attempt") + 1)
    return list(Run.objects.filter(pk__in=found, lease_token=token).order_by("next_run_at"))


def release_all_leases() -> None:
    """For a process that knows it is the only one: whoever held a lease is dead."""
    Run.objects.exclude(lease_token=None).update(**AT_REST)


def lease_one(run_id: UUID, *states: State) -> Run | None:
    leased = lease(due(timezone.now()).filter(pk=run_id, state__in=states), 1)
    return leased[0] if leased else None


def move(run: Run, after: State, events: Sequence[Event] = (), **changes: Any) -> None:
    """Write `changes` and go to `after`, if `run` still is as it was read; else FenceLost.

    `run` is matched by its state and its lease token, which is None for a row that nobody
    holds. Call it in a transaction when other rows must move with it.
    """
    before = State(run.state)
    if before is not after and not may_move(before, after):
        raise ValueError(f"a run cannot go from {before} to {after}")
    with transaction.atomic():
        moved = Run.objects.filter(pk=run.pk, state=before, lease_token=run.lease_token).update(
            state=after, event_seq=F("event_seq") + len(events), **changes
        )
        if not moved:
            raise FenceLost(run.public_id)
        log(run, after, events)


def end(run: Run, after: State, events: Sequence[Event] = (), **changes: Any) -> None:
    """Move to a terminal state: at rest, out of every queue."""
    if after not in TERMINAL:
        raise ValueError(f"{after} is not an end")
    changes.setdefault("completed_at", timezone.now())
    move(run, after, events, next_run_at=None, **AT_REST, **changes)


def log(run: Run, state: State, events: Sequence[Event]) -> None:
    """Append the events whose numbers the caller has just reserved, and tell the browsers.

    The number is read back after the row was written, in the same transaction, so that a
    door and a worker that log at once never share one.
    """
    seq = Run.objects.values_list("event_seq", flat=True).get(pk=run.pk)
    first = seq - len(events) + 1
    RunEvent.objects.bulk_create(
        RunEvent(run_id=run.pk, seq=first + place, kind=event.kind, data=event.data)
        for place, event in enumerate(events)
    )
    publish_after_commit(
        run.user_id, {"type": "run", "id": run.public_id, "seq": seq, "state": PUBLIC[state]}
    )


def flag(run: Run, events: Sequence[Event], **changes: Any) -> bool:
    """Change a live run's flags whoever holds it; False when it has ended meanwhile."""
    with transaction.atomic():
        changed = Run.objects.filter(pk=run.pk, completed_at=None, cancel_requested_at=None).update(
            event_seq=F("event_seq") + len(events), **changes
        )
        if changed:
            log(run, State(run.state), events)
    return bool(changed)


def wake_at(moment: datetime) -> Case:
    """`moment`, or at once for a run whose user asked to stop it while it was held."""
    return Case(When(cancel_requested_at__isnull=False, then=Value(timezone.now())), default=Value(moment))


def put_back(runs: Iterable[Run], token: UUID, moment: datetime) -> None:
    """Return leased runs about which there is nothing to tell, to be looked at at `moment`."""
    Run.objects.filter(pk__in=[run.pk for run in runs], lease_token=token).update(
        next_run_at=wake_at(moment), faults=0, **AT_REST
    )
