"""Runs that are asked for at the same time, started in one transaction (docs/decisions/0024).

A round does what `start_run` does, for its plain case: a question that stands by itself, through a key
without limits of its own, which its user's own purses can pay. Whatever is not plain, and everything
when the round itself fails, is left to `start_run`. Lock order as there: account, ledger, run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from portal.services import ledger_many
from portal.services.groups import Groups
from portal.services.principal import Principal
from portal.services.rows import Plain, Select, Statement, among, begin, end, insert
from portal.services.transactions import insist
from portal.services.trips import with_prepared
from portal.wire.crash import crashpoint
from portal.wire.errors import Problem, unavailable
from research.models.presets import Preset
from research.models.runs import Run
from research.protocol.options import RunRequest
from research.protocol.states import State
from research.queries import usual_seconds
from research.services import moves
from research.services.start import (
    QUEUED,
    Started,
    audit_of,
    choose_preset,
    new_run,
    ring_when_committed,
)

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
USUAL_KEPT = 5.0
"""Seconds for which a process believes how long a preset usually takes."""
UNLIMITED = """
SELECT portal_apikey.id FROM portal_apikey JOIN portal_user ON portal_user.id = portal_apikey.user_id
WHERE {keys} AND portal_apikey.monthly_cap IS NULL
AND portal_apikey.parallel_runs IS NULL AND portal_user.parallel_runs IS NULL
"""
KNOWN = "SELECT user_id, idempotency_key FROM {table} WHERE {pairs}"
"""An OR for each pair, so that each is looked up in the index."""

_usual: dict[str, tuple[float, int]] = {}
# The usual seconds of presets by name, each with the moment until which that counts.


@dataclass(frozen=True, slots=True)
class Asking:
    """Somebody who wants a run started."""

    who: Principal
    request: RunRequest
    door: str

    @property
    def is_plain(self) -> bool:
        """As far as the request itself says."""
        asked = self.request
        stands_alone = asked.previous_id is None and not asked.options.attachments
        return stands_alone and not (asked.retry_count and not asked.idempotency_key)

    @property
    def name(self) -> tuple[int, str] | None:
        """What makes it the same request as another."""
        key = self.request.idempotency_key
        return (self.who.user_id, key) if key else None


async def start_soon(asking: Asking) -> Started | None:
    """The run; None for what is not plain: `start_run` knows what becomes of that.

    Raises BadRequest (`preset`), and Unavailable when too many wait.
    """
    if not asking.is_plain or asking.who.key_id is None:
        return None
    if _groups.waiting >= MOST_WAITING:
        raise unavailable()
    started = await _groups.submit(asking)
    if started is not None:
        crashpoint("start.rung")
    return started


def do_round(askings: Sequence[Asking]) -> list[Started | BaseException | None]:
    """What becomes of each, in order; None is left to be started alone.

    Raises what the database raises where it cannot tell whether the round was committed: nothing may be
    started then that might have been started, and would be paid for, before. The same where the round
    could not begin: it has waited as long as anybody does, and alone each would wait once more.
    """
    working = _Round(askings)

    def attempt() -> dict[int, Started | BaseException]:
        nonlocal working
        working = _Round(askings)
        with transaction.atomic():
            return working.run()

    try:
        done = with_prepared(attempt)
    except Exception as error:  # whoever caused it meets it again, alone
        if not working.begun:
            raise
        log.info("%s runs are started one by one: %s", len(askings), type(error).__name__)
        done = insist(working.committed)
    return [done.get(place) for place in range(len(askings))]


class _Round:
    """One transaction's worth of starts. What it has no result for has left no trace in it."""

    def __init__(self, askings: Sequence[Asking]) -> None:
        self._askings = askings
        self._done: dict[int, Started | BaseException] = {}
        self.begun = False

    def run(self) -> dict[int, Started | BaseException]:
        self.begun = True
        named = {asking.name for asking in self._askings if asking.name}
        users = {asking.who.user_id for asking in self._askings}
        keys, given = among("portal_apikey.id", {asking.who.key_id for asking in self._askings})
        # The accounts come first: whoever has them locked sees all that was started before with these names.
        accounts, known, unlimited, self._presets = begin(
            ledger_many.reads(users, ())[0],
            _known(named),
            Plain(UNLIMITED.format(keys=keys), given),
            Select(Preset, "WHERE enabled ORDER BY position, name"),
        )
        self._taken = {(user, name) for user, name in known or ()}
        self._unlimited = {key for (key,) in unlimited}
        books = ledger_many.Books(accounts, ())
        _write(self._admit(books), books)
        return self._done

    def committed(self) -> dict[int, Started | BaseException]:
        """Of a round that broke. That is nothing, unless only the answer to its commit was lost."""
        started = {place: made.run.pk for place, made in self._done.items() if isinstance(made, Started)}
        if not started:
            return {}
        there = set(Run.objects.filter(pk__in=started.values()).values_list("pk", flat=True))
        return {place: self._done[place] for place, key in started.items() if key in there}

    def _admit(self, books: ledger_many.Books) -> list[tuple[Asking, Run]]:
        started = []
        for place, asking in enumerate(self._askings):
            if asking.who.key_id not in self._unlimited or asking.name in self._taken:
                continue
            try:
                preset = choose_preset(self._presets, asking.request.preset)
            except Problem as problem:
                self._done[place] = problem
                continue
            fresh = new_run(asking.who, asking.request, preset, _usual_seconds(preset), asking.door)
            if not _is_paid(fresh, books):
                continue
            self._taken |= {asking.name} if asking.name else set()
            self._done[place] = Started(fresh, replayed=False)
            started.append((asking, fresh))
        return started


def _write(started: Sequence[tuple[Asking, Run]], books: ledger_many.Books) -> None:
    if not started:
        return
    runs = [fresh for _, fresh in started]
    events = [row for fresh in runs for row in moves.rows_of(fresh, [QUEUED], fresh.event_seq)]
    for fresh in runs:
        moves.tell(fresh, State.QUEUED, fresh.event_seq)
    ring_when_committed()
    crashpoint("start.before_commit")
    end(
        *books.writes(),
        insert(runs),
        insert(events),
        insert([audit_of(asking.who, fresh) for asking, fresh in started]),
    )


def _known(named: set[tuple[int, str]]) -> Statement | None:
    """Which of these names have a run, or a chat's response."""
    pairs = " OR ".join(["(user_id = %s AND idempotency_key = %s)"] * len(named))
    looks = [KNOWN.format(table=table, pairs=pairs) for table in ("research_run", "proxy_chatresponse")]
    values = [value for pair in named for value in pair] * len(looks)
    return Plain(" UNION ALL ".join(looks), values, varies=True) if named else None


def _is_paid(fresh: Run, books: ledger_many.Books) -> bool:
    return not fresh.price or books.hold(
        ledger_many.Hold(fresh.user_id, fresh.subject, fresh.price, fresh.key_id)
    )


def _usual_seconds(preset: Preset) -> int:
    until, seconds = _usual.get(preset.name, (0.0, 0))
    if time.monotonic() >= until:
        seconds = usual_seconds(preset)
        _usual[preset.name] = (time.monotonic() + USUAL_KEPT, seconds)
    return seconds


_groups: Groups[Asking, Started | None] = Groups(do_round, "starts")
