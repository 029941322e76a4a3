"""The worker's side of the dashboard's chat: it answers one turn, and writes it down as it grows.

    claim   compare-and-set: of all messages that ring for a turn, one answers it
    read    the relay's deltas, on the network loop
    keep    every so often what there is goes to the turn's row, and a hint to the browser

A worker that dies leaves the row as far as it had come; the sweep of expired leases ends it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db import Error
from django.db.models import F
from django.utils import timezone

from portal.live.events import ChatMoved
from portal.live.publish import publish
from portal.services import network
from portal.services.principal import principal_of
from portal.services.queue import ring
from portal.wire.errors import Problem, Unavailable
from proxy.models.chats import ChatTurn
from proxy.protocol.delta import Delta, Reasoning, Source, SourceFound, Text
from proxy.queries import turns_of
from proxy.services.chat import ChatPlan, plan_again, prepare_chat
from proxy.services.dialogue import ANSWER, DOOR, request_of
from proxy.services.leases import lease_end
from proxy.services.relay import Relay
from proxy.services.settling import end_turn
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

State = ChatTurn.State
TICK = 0.2
"""Seconds between two looks at what came; each that found something is written down."""
LOOK = 0.5
"""Seconds between two looks whether somebody asks to stop, while nothing comes."""
PATIENCE = timedelta(minutes=2)
"""How long a question may wait for a worker."""
A_SWEEP = 200


def answer_turn(turn_id: UUID) -> None:
    """Answer it, unless somebody does already; comes back when it has ended."""
    turn = _claim(turn_id)
    if turn is None:
        return
    try:
        plan = _plan_of(turn)
    except Problem as problem:
        end_turn(turn, State.FAILED, problem)
        tell(turn_id)
        return
    network.call(_answer(plan))


def ring_waiting() -> None:
    """Ring again for questions that no worker has begun: messages get lost, and workers are busy."""
    now = timezone.now()
    waiting = ChatTurn.objects.filter(
        state=State.OPEN, door=DOOR, claimed_at=None, created_at__gt=now - PATIENCE
    )
    turns = list(waiting.order_by("lease_until").values_list("pk", flat=True)[:A_SWEEP])
    if not turns:
        return
    ChatTurn.objects.filter(pk__in=turns, state=State.OPEN, claimed_at=None).update(lease_until=lease_end())
    for turn_id in turns:
        ring(ANSWER, str(turn_id))


def tell(turn_id: UUID) -> None:
    """Hint to the pages of its user where the turn stands."""
    turn = ChatTurn.objects.filter(pk=turn_id).only("user_id", "conversation_id", "seq", "state").first()
    if turn is not None:
        event = ChatMoved(
            type="chat", id=str(turn.conversation_id), turn=str(turn_id), seq=turn.seq, state=turn.state
        )
        publish(turn.user_id, event)


def _claim(turn_id: UUID) -> ChatTurn | None:
    free = ChatTurn.objects.filter(
        pk=turn_id, door=DOOR, state=State.OPEN, claimed_at=None, stop_asked_at=None
    )
    if not free.update(claimed_at=timezone.now(), lease_until=lease_end()):
        return None
    return ChatTurn.objects.select_related("user", "account", "conversation").get(pk=turn_id)


def _plan_of(turn: ChatTurn) -> ChatPlan:
    """The plan that was made when the question was let in. Raises Problem."""
    if turn.account is None:
        raise Unavailable("The Perplexity session that should answer was removed.")
    chat = turn.conversation
    earlier = [one for one in turns_of(chat) if one.created_at < turn.created_at] if chat else []
    request = request_of(earlier, turn.question, turn.model, thinking=turn.thinking)
    question = prepare_chat(principal_of(turn.user), request, DOOR, turn.conversation_id)
    return plan_again(question, turn, turn.account)


@dataclass(slots=True)
class _Draft:
    """What has come of one answer, and what of it is written down."""

    turn_id: UUID
    pieces: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    first_text_at: datetime | None = None
    is_new: bool = False
    looked: float = 0.0

    def add(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            match delta:
                case Text():
                    self.first_text_at = self.first_text_at or timezone.now()
                    self.pieces.append(delta.text)
                case Reasoning():
                    self.lines.append(delta.line)
                case SourceFound():
                    self.sources[delta.number] = delta.source
                case _:
                    continue
            self.is_new = True

    def keep(self) -> bool:
        """Write down what is new. False when the answer has to end: somebody asks for it, or it has."""
        rows = ChatTurn.objects.filter(pk=self.turn_id, state=State.OPEN)
        if self.is_new:
            self.is_new = False
            answer = "".join(self.pieces)  # first: the reader adds meanwhile, and what is shown is paid
            rows.update(
                answer=answer,
                reasoning="\n".join(self.lines),
                sources=[asdict(source) for _, source in sorted(self.sources.items())],
                first_token_at=self.first_text_at if answer else None,
                seq=F("seq") + 1,
            )
            tell(self.turn_id)
        return rows.filter(stop_asked_at=None).exists()

    @property
    def is_due(self) -> bool:
        """Whether it is time to write, or at least to look; says so once."""
        now = time.monotonic()
        if not self.is_new and now - self.looked < LOOK:
            return False
        self.looked = now
        return True


async def _answer(plan: ChatPlan) -> None:
    relay = Relay(plan.question, plan, streams=True)
    draft = _Draft(plan.question.turn_id)
    reading = asyncio.create_task(_read(relay, draft))
    try:
        while not reading.done():
            await asyncio.wait({reading}, timeout=TICK)
            if not reading.done() and draft.is_due and not await _kept(draft):
                break
    finally:
        reading.cancel()
        try:
            with suppress(asyncio.CancelledError, Problem):
                await reading
        finally:
            await in_thread(partial(tell, draft.turn_id))
    if reading.cancelled():
        await relay.terminate()


async def _read(relay: Relay, draft: _Draft) -> None:
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            draft.add(deltas)


async def _kept(draft: _Draft) -> bool:
    """A database that is away for a moment ends no answer: the next look tells."""
    try:
        return await in_thread(draft.keep)
    except Error as error:
        draft.is_new = True
        log.warning("a chat's answer was not written down: %s", type(error).__name__)
        return True
