"""A run's stream, from any event on to its end: rows are read as they are written, and folded.

The run knows nothing of it. A reader may come at any time, to any process, and again after the end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from uuid import UUID

from portal.live.news import News
from portal.models.ledger import LedgerEntry
from portal.services.principal import Principal
from portal.wire.errors import no_response
from portal.wire.sse import encode_comment
from proxy.protocol.responses_stream import Event
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.answer import RunView
from research.protocol.run_stream import LogRow, RunStream
from research.queries import followed_runs
from research.services.views import view_for

LARGEST_PIECE = 65_536
"""Bytes after which a write is begun: a slow reader holds no more than this and its report."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a look at the rows brought: the log's next part, and the run once it has ended."""

    rows: tuple[LogRow, ...]
    ended: RunView | None


async def tail(run: RunView, news: News, who: Principal, *, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The records of all events with a number above `after`, as they come, to the terminal one.

    The first piece comes at once, if only as a comment. Raises NotFound when the run's rows are gone, or
    are the caller's to read no more.
    """
    stream, seq, silent = RunStream(run), 0, True
    events = stream.open()
    while True:
        stretch = await news.read(partial(read_on, who, run.id, seq))
        events += stream.read(stretch.rows)
        if stretch.ended is not None:
            events += stream.end(stretch.ended)
        for piece in _pieces(events, after):
            silent = False
            yield piece
        if silent:
            silent = False
            yield encode_comment("connected")
        if stream.over:
            return
        seq = stretch.rows[-1].seq if stretch.rows else seq
        events = []
        await news.after(run.id, seq)


def events_written(runs: Collection[UUID]) -> dict[UUID, int]:
    """The number of the last event of each run that there is."""
    return dict(Run.objects.filter(pk__in=runs).values_list("pk", "event_seq"))


def read_on(who: Principal, run_id: UUID, seq: int) -> Stretch:
    """The log after event `seq`, no further than the run's own row knew of it."""
    run = followed_runs(who).filter(pk=run_id).first()
    if run is None:
        raise no_response()
    rows = RunEvent.objects.filter(run_id=run_id, seq__gt=seq, seq__lte=run.event_seq).order_by("seq")
    log = tuple(LogRow(row.seq, row.kind, row.data) for row in rows)
    return Stretch(log, _as_it_ended(who, run) if run.is_terminal else None)


def _as_it_ended(who: Principal, run: Run) -> RunView:
    """Without what an operator gave back since, and with the report that belongs to it."""
    view = view_for(who, run)
    if view.status in ("completed", "incomplete") and view.report is None:
        raise no_response()  # retention took it while somebody was reading
    closed = LedgerEntry.objects.filter(subject=run.subject, kind=LedgerEntry.Kind.CLOSE)
    released = closed.values_list("released", flat=True).first()
    return replace(view, credits_refunded=released or Decimal(0))


def _pieces(events: list[Event], after: int) -> list[bytes]:
    pieces, waiting = [], b""
    for event in events:
        if event.sequence_number > after:
            waiting += event.encode()
            if len(waiting) >= LARGEST_PIECE:
                pieces.append(waiting)
                waiting = b""
    return [*pieces, waiting] if waiting else pieces
