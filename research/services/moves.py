"""The one place that moves a run: leases, fenced compare-and-set writes, events, hints.

A worker leases a row, makes one upstream call with no transaction open, and writes back under
the token it got. A write whose token or state no longer matches changes nothing and raises
`FenceLost`: its writer was a zombie, and drops what it knows (STACK §4.3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from portal.live.events import RunMoved
from portal.live.publish import publish, publish_after_commit
from portal.services.transactions import joined
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.states import PUBLIC, TERMINAL, State, may_move
from research.queries import readers_of

AT_REST: dict[str, Any] = {"lease_token": None, "lease_until": None}

# One statement picks, locks and takes: whoever comes second finds the rows leased. SKIP LOCKED spares
# PostgreSQL the wait for a neighbour; SQLite lets one writer in at a time.
LEASE = """
WITH picked (key) AS {materialized} ({pick}{skip_locked})
UPDATE research_run SET lease_token = %s, lease_until = {until}, attempt = attempt + 1
WHERE id IN (SELECT picked.key FROM picked) RETURNING {columns}
"""


class FenceLost(Exception):
    """Another process moved this run first. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


def due(now: datetime) -> QuerySet[Run]:
    """Rows a worker may lease: their time has come and nobody holds them.

    PostgreSQL's own clock says whether a lease is over, so that a machine whose clock is fast
    takes nothing from a living worker. SQLite's processes share a machine.
    """
    over = Now() if connection.vendor == "postgresql" else now
    return Run.objects.filter(Q(lease_token=None) | Q(lease_until__lt=over), next_run_at__lte=now)


def lease(rows: QuerySet[Run], limit: int, *, only: Collection[str] = ()) -> list[Run]:
    """Lease up to `limit` of the due `rows`, longest due first; one token fences this whole batch.

    `only` names the columns that are read, where not all are wanted; see `whole`.
    """
    pick, values = rows.order_by("next_run_at").values("pk")[:limit].query.sql_with_params()
    on_postgres = connection.vendor == "postgresql"
    wanted = [field.column for field in Run._meta.concrete_fields if not only or field.name in only]
    statement = LEASE.format(
        pick=pick,
        materialized="MATERIALIZED" if on_postgres else "",
        skip_locked=" FOR NO KEY UPDATE SKIP LOCKED" if on_postgres else "",
        until="STATEMENT_TIMESTAMP() + %s" if on_postgres else "%s",
        columns=", ".join(str(column) for column in wanted),
    )
    token = Run._meta.get_field("lease_token").get_db_prep_value(uuid4(), connection)
    return sorted(
        Run.objects.raw(statement, [*values, token, _lease_end()]),
        key=lambda run: run.next_run_at or run.created_at,
    )


def whole(runs: Sequence[Run], *, without: Collection[str] = ()) -> dict[UUID, Run]:
    """Leased runs of which only some columns were read, with all but those, by their keys; they are fenced
    as they were."""
    rows: dict[UUID, Run] = Run.objects.defer(*without).in_bulk([run.pk for run in runs])
    for run in runs:
        if row := rows.get(run.pk):
            row.state, row.lease_token = run.state, run.lease_token
    return rows


def lease_one(run_id: UUID, *states: State) -> Run | None:
    leased = lease(due(timezone.now()).filter(pk=run_id, state__in=states), 1)
    return leased[0] if leased else None


def renew(runs: Collection[Run], *, longer: timedelta = timedelta(0)) -> None:
    """Hold leased runs for a lease (and `longer`) from now; those that others took stay theirs."""
    span = timedelta(seconds=settings.RESEARCH_LEASE_SECONDS) + longer
    until = Now() + span if connection.vendor == "postgresql" else timezone.now() + span
    for token in {run.lease_token for run in runs}:
        mine = [run.pk for run in runs if run.lease_token == token]
        Run.objects.filter(pk__in=mine, lease_token=token, completed_at=None).update(lease_until=until)


def release_all_leases() -> None:
    """For a process that has its SQLite file to itself: whoever held a lease is dead.

    On a database that others can reach, nobody knows that; there a lease ends by its time.
    """
    if connection.vendor == "sqlite":
        Run.objects.exclude(lease_token=None).update(**AT_REST)


def move(run: Run, after: State, events: Sequence[Event] = (), **changes: Any) -> None:
    """Write `changes` and go to `after`, if `run` still is as it was read; else FenceLost.

    `run` is matched by its state and its lease token, which is None for a row that nobody
    holds. Call it in a transaction when other rows must move with it.
    """
    before = State(run.state)
    if before is not after and not may_move(before, after):
        raise ValueError(f"a run cannot go from {before} to {after}")
    if events:
        changes["event_seq"] = F("event_seq") + len(events)
    with joined():
        moved = Run.objects.filter(pk=run.pk, state=before, lease_token=run.lease_token).update(
            state=after, **changes
        )
        if not moved:
            raise FenceLost(run.public_id)
        if events:
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
    append(run, state, events, seq)


def append(run: Run, state: State, events: Sequence[Event], last: int) -> None:
    """Append events that end at number `last`, which nobody else can have."""
    RunEvent.objects.bulk_create(rows_of(run, events, last))
    tell(run, state, last)


def rows_of(run: Run, events: Sequence[Event], last: int) -> list[RunEvent]:
    """Such events as rows, to be written by the caller."""
    first = last - len(events) + 1
    return [
        RunEvent(run_id=run.pk, seq=first + place, kind=event.kind, data=event.data)
        for place, event in enumerate(events)
    ]


def tell(run: Run, state: State, last: int) -> None:
    """Tell the browsers of event `last` once it is committed."""
    event: RunMoved = {"type": "run", "id": run.public_id, "seq": last, "state": PUBLIC[state]}
    publish_after_commit(run.user_id, event)
    if run.shared_with_id is not None:
        transaction.on_commit(partial(_tell_readers, run, event), robust=True)


def _tell_readers(run: Run, event: RunMoved) -> None:
    """Whoever may read the run at this moment, whatever page they have open since when."""
    for user_id in readers_of(run):
        publish(user_id, event)


def flag(run: Run, events: Sequence[Event], **changes: Any) -> bool:
    """Change a live run's flags whoever holds it; False when it has ended meanwhile."""
    with joined():
        changed = Run.objects.filter(pk=run.pk, completed_at=None, cancel_requested_at=None).update(
            event_seq=F("event_seq") + len(events), **changes
        )
        if changed:
            log(run, State(run.state), events)
    return bool(changed)


def wake_at(moment: datetime) -> Case:
    """`moment`, or at once for a run whose user asked to stop it while it was held."""
    return Case(_stopped(), default=Value(moment))


def put_back(runs: Mapping[datetime, Sequence[Run]], **changes: Any) -> None:
    """Return leased runs about which there is nothing to tell, to be looked at again at the
    moment they stand under. One statement for those of one lease, however many they are."""
    for token in {run.lease_token for group in runs.values() for run in group}:
        mine = {
            moment: [run.pk for run in group if run.lease_token == token] for moment, group in runs.items()
        }
        _put_back(token, {moment: keys for moment, keys in mine.items() if keys}, changes)


def _put_back(token: UUID | None, groups: Mapping[datetime, list[UUID]], changes: Mapping[str, Any]) -> None:
    last = max(groups)
    moments = [When(pk__in=keys, then=Value(moment)) for moment, keys in groups.items() if moment != last]
    everybody = [key for keys in groups.values() for key in keys]
    Run.objects.filter(pk__in=everybody, lease_token=token).update(
        next_run_at=Case(_stopped(), *moments, default=Value(last)), **AT_REST, **changes
    )


def _stopped() -> When:
    return When(cancel_requested_at__isnull=False, then=Value(timezone.now()))


def _lease_end() -> timedelta | str:
    """What the lease statement is given: a span on PostgreSQL, whose clock counts; else a moment."""
    span = timedelta(seconds=settings.RESEARCH_LEASE_SECONDS)
    if connection.vendor == "postgresql":
        return span
    return str(connection.ops.adapt_datetimefield_value(timezone.now() + span))
