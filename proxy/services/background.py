"""The worker's side of background responses: one makes the answer, everybody may read what is written.

    claim   compare-and-set on the turn; who holds it is told by `claimed_at`
    read    the relay's deltas → events, on the network loop
    keep    every so often what is new becomes rows; readers follow those (response_tail.py)
    end     in the transaction that settles the turn (response_rows.write_end)

A worker that dies renews nothing: the sweep frees the turn, and another goes on. It takes the same
upstream answer up again where its thread is known; else, while nothing was told, it asks anew. A worker
whose connection breaks does the same by itself (relay.REJOINS).

A stream whose web process dies is taken over by a worker as well, where its thread is known: its caller
reads it again from its beginning. It is never asked anew, since nobody knows what of it was told.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any
from uuid import UUID

from django.db import Error, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from portal.services import network
from portal.services.queue import ring
from portal.wire.errors import Problem, Unavailable
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.protocol.delta import Delta, Text, Thread, ThreadKnown
from proxy.protocol.response_object import frame
from proxy.protocol.responses_stream import Event, ResponseStream
from proxy.services.bridge import Judge
from proxy.services.chat import Busy, ChatPlan, Question, judge_of, place_turn, plan_again
from proxy.services.leases import LEASE, lease_end
from proxy.services.relay import Relay, Resumed
from proxy.services.response_making import end_stream
from proxy.services.response_rows import (
    BACKGROUND,
    DOOR,
    head_of,
    lines_told,
    question_of,
    stream_of,
    that_can_go_on,
    thread_of,
    write_end,
    write_events,
    write_thread,
)
from proxy.services.responses import ANSWER
from proxy.services.settling import DIED, Outcome, Settled, Superseded, end_turn
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

State = ChatTurn.State
TICK = 0.2
"""Seconds between two looks at what came; each that found something is written down."""
LOOK = 0.5
"""Seconds between two looks whether the turn is still ours, while nothing comes."""
MOST_ATTEMPTS = 5
"""Workers that may die of one response."""
PATIENCE = timedelta(hours=1)
"""How long a response may wait for a worker and a place."""
RING_AGAIN = timedelta(seconds=5)
A_SWEEP = 50


@dataclass(slots=True)
class Draft:
    """What has come of one response, and what of it is written down."""

    response_id: UUID
    claimed_at: datetime
    stream: ResponseStream
    judge: Judge | None = None
    """With function tools: nothing of the answer is told before it was judged."""
    first_text_at: datetime | None = None
    thread: Thread | None = None
    """Known since the last write."""
    waiting: deque[list[Event]] = field(default_factory=deque)
    """What is not known to be written: it waits until the commit is, since a write may fail while the end
    of the answer is kept by another thread."""
    looked: float = 0.0
    hands: AbstractContextManager[Any] = field(default_factory=Lock)
    """Of whoever looks into what waits; never held while the database is asked."""
    _last: list[Event] | None = None

    @property
    def is_mine(self) -> bool:
        return ChatTurn.objects.filter(pk=self.response_id, claimed_at=self.claimed_at).exists()

    @property
    def is_due(self) -> bool:
        """Whether it is time to write, or at least to look; says so once."""
        now = time.monotonic()
        if not self.waiting and now - self.looked < LOOK:
            return False
        self.looked = now
        return True

    def add(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, Text) and self.judge is None:
                self.first_text_at = self.first_text_at or timezone.now()
            elif isinstance(delta, ThreadKnown):
                self.thread = delta.thread
        events = self.stream.feed([] if self.judge else deltas)
        if events or self.thread:
            with self.hands:
                self.waiting.append(events)

    def write(self) -> bool:
        """Write down what is new. False when the answer has to end: it has, or is somebody else's."""
        thread = self._take_thread()
        try:
            with transaction.atomic():
                mine = ChatTurn.objects.filter(pk=self.response_id, claimed_at=self.claimed_at)
                if not mine.filter(state=State.OPEN).update(claimed_at=self.claimed_at):
                    return False
                new = self._new()
                # Only now: the reader may have added the first text since the row was locked.
                mine.filter(first_token_at=None).update(first_token_at=self.first_text_at)
                write_events(self.response_id, new)
                if thread is not None:
                    write_thread(self.response_id, thread)
        except Error:
            self.thread = self.thread or thread
            raise
        self._forget(new)
        return True

    def keep(self, plan: ChatPlan, last: list[Delta], outcome: Outcome, settled: Settled) -> None:
        """As `relay.Ending`. An answer that is merely left is no end: another worker goes on with it."""
        if (outcome.done is None and outcome.problem is None) or not self.is_mine:
            raise Superseded
        if self._last is None:
            told = self._new()
            self._last = [*told, *end_stream(self.stream, plan, last, outcome, settled, self.judge)]
        text = "" if self.judge else outcome.text.strip()
        write_end(self.response_id, self.stream.response, self._last, text)

    def _new(self) -> list[Event]:
        """All that waits, in order; some of it may be written by now."""
        with self.hands:
            return [event for events in self.waiting for event in events]

    def _forget(self, written: list[Event]) -> None:
        last = written[-1].sequence_number if written else -1
        with self.hands:
            while self.waiting and (not self.waiting[0] or self.waiting[0][-1].sequence_number <= last):
                self.waiting.popleft()

    def _take_thread(self) -> Thread | None:
        thread, self.thread = self.thread, None
        return thread


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed response: whom to ask what, and where a dead worker left it."""

    question: Question
    plan: ChatPlan | None
    draft: Draft
    resumed: Resumed | None

    def open_relay(self) -> Relay:
        take: Callable[[], ChatPlan] = partial(place_turn, self.question)
        return Relay(
            self.question,
            self.plan,
            streams=self.draft.judge is None,
            take=take,
            ending=self.draft,
            resumed=self.resumed,
            judge=self.draft.judge,
            rejoins=True,
        )


def answer_response(response_id: UUID) -> None:
    """Make it, unless somebody does already; comes back when it has ended, or has to wait again."""
    claimed_at = _claim(response_id)
    if claimed_at is None:
        return
    turn = ChatTurn.objects.select_related("user", "account").get(pk=response_id)
    try:
        work = _begin(turn, claimed_at)
    except Problem as problem:
        _fail(turn, claimed_at, problem)
        return
    network.call(_answer(turn, work))


def ring_waiting() -> None:
    """Free what processes left that died, and ring again for what no worker has begun."""
    now = timezone.now()
    _take_over(now)
    turns = list(waiting(now).values_list("pk", flat=True)[:A_SWEEP])
    if not turns:
        return
    mine = ChatTurn.objects.filter(pk__in=turns, state=State.OPEN)
    mine.filter(lease_until__lt=now).update(claimed_at=None)
    mine.filter(claimed_at=None).update(lease_until=lease_end())
    for turn_id in turns:
        ring(ANSWER, str(turn_id))


def _take_over(now: datetime) -> None:
    """Hand the streams of dead web processes to the workers."""
    orphans = ChatTurn.objects.filter(state=State.OPEN, door=DOOR, lease_until__lt=now)
    known = orphans.filter(pk__in=that_can_go_on().values("pk")).order_by("lease_until")
    if turns := list(known.values_list("pk", flat=True)[:A_SWEEP]):
        orphans.filter(pk__in=turns).update(door=BACKGROUND)


def waiting(now: datetime) -> QuerySet[ChatTurn]:
    """Turns whose worker has died, and those that nobody has taken and nobody was rung for lately."""
    open_turns = ChatTurn.objects.filter(state=State.OPEN, door=BACKGROUND)
    rung_before = open_turns.filter(lease_until__lt=now + LEASE - RING_AGAIN).order_by("lease_until")
    return rung_before.filter(Q(claimed_at=None) | Q(lease_until__lt=now))


def _claim(response_id: UUID) -> datetime | None:
    """When it was claimed, which proves that it is ours; None for what others have, or has ended."""
    now = timezone.now()
    free = ChatTurn.objects.filter(pk=response_id, door=BACKGROUND, state=State.OPEN, claimed_at=None)
    with transaction.atomic():
        if not free.update(claimed_at=now, lease_until=lease_end()):
            return None
        ChatResponse.objects.filter(pk=response_id).update(attempts=F("attempts") + 1)
    return now


def _begin(turn: ChatTurn, claimed_at: datetime) -> Work:
    """Raises Problem when it cannot be made, or not any more."""
    row = ChatResponse.objects.filter(pk=turn.pk).first()
    if row is None or row.completed_at is not None or row.attempts > MOST_ATTEMPTS:
        raise Unavailable(DIED)  # told nobody where the turn has ended, too
    if row.created_at < timezone.now() - PATIENCE:
        raise Unavailable("Nobody could answer in time.")
    question = question_of(row, turn)
    draft = Draft(row.pk, claimed_at, stream_of(row), judge_of(question), turn.first_token_at)
    if draft.stream.over:
        raise Unavailable(DIED)  # it was cancelled since the row was read
    thread = thread_of(row)
    plan = plan_again(question, turn, turn.account) if turn.account else None
    may_be_asked_anew = row.background and not draft.stream.text
    resumed = None
    if plan and thread:
        told, since = draft.stream.text, turn.first_token_at
        resumed = Resumed(thread, told, since, lines_told(row), or_anew=may_be_asked_anew)
    elif not may_be_asked_anew:
        raise Unavailable(DIED)
    _write_beginning(row, draft)
    return Work(question, plan, draft, resumed)


def _write_beginning(row: ChatResponse, draft: Draft) -> None:
    """The first events, or what is left of them. Somebody may have cancelled it since: then nothing is
    written."""
    events = draft.stream.begin() if row.events else draft.stream.open()
    if not events:
        return
    with transaction.atomic():
        mine = ChatTurn.objects.filter(pk=row.pk, state=State.OPEN, claimed_at=draft.claimed_at)
        if mine.update(claimed_at=draft.claimed_at):
            write_events(row.pk, events)
            status = ChatResponse.Status.IN_PROGRESS
            ChatResponse.objects.filter(pk=row.pk).update(
                status=status, body=frame(head_of(row), "in_progress")
            )


async def _answer(turn: ChatTurn, work: Work) -> None:
    relay, draft = work.open_relay(), work.draft
    reading = asyncio.create_task(_read(relay, draft))
    lost = False
    try:
        while not reading.done() and not lost:
            await asyncio.wait({reading}, timeout=TICK)
            lost = not reading.done() and draft.is_due and not await _is_kept(draft)
    finally:
        if not reading.cancelling():  # once: it settles on its way out
            reading.cancel()
        problem: Problem | None = None
        try:
            await reading
        except Problem as error:
            problem = error
        except asyncio.CancelledError:
            pass
        finally:
            await in_thread(partial(_leave, turn, draft, problem, is_settled=relay.plan is not None))
    if lost and await in_thread(partial(_is_cancelled, turn)):
        await relay.terminate()


async def _read(relay: Relay, draft: Draft) -> None:
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            if relay.outcome.done is None:
                draft.add(deltas)


async def _is_kept(draft: Draft) -> bool:
    """A database that is away for a moment ends no answer: the next look tells."""
    try:
        return await in_thread(draft.write)
    except Error as error:
        log.warning("a response's events were not written down: %s", type(error).__name__)
        return True


def _leave(turn: ChatTurn, draft: Draft, problem: Problem | None, *, is_settled: bool) -> None:
    """Give back what is still open: at once, not when its lease ends."""
    if problem is not None and not is_settled and not isinstance(problem, Busy):
        _fail(turn, draft.claimed_at, problem)
        return
    mine = ChatTurn.objects.filter(pk=turn.pk, state=State.OPEN, claimed_at=draft.claimed_at)
    with suppress(Error), transaction.atomic():
        if mine.update(claimed_at=None, lease_until=timezone.now()) and isinstance(problem, Busy):
            # To wait is no attempt.
            ChatResponse.objects.filter(pk=turn.pk).update(attempts=F("attempts") - 1)


def _fail(turn: ChatTurn, claimed_at: datetime, problem: Problem) -> None:
    end_turn(turn, State.FAILED, problem, only_if={"claimed_at": claimed_at})


def _is_cancelled(turn: ChatTurn) -> bool:
    return ChatTurn.objects.filter(pk=turn.pk, state=State.CANCELLED).exists()
