"""One answer on its way from the upstream to whoever reads it: the engine behind every door.

    bytes → SseDecoder → WebAnswer → Finisher → [Delta, …], one list per upstream read

Before the first text a failed ask is tried elsewhere (placing.py), a refused continuation once more with the
whole conversation. With `rejoins` an answer whose connection breaks is taken up again, as long as its thread
is known. Whoever stops reading ends it: the upstream is closed, nothing is tried again, and the turn is
settled, however that came about.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from django.utils import timezone

from portal.wire.errors import Problem
from portal.wire.sse import SseDecoder, SseTooLong
from proxy.protocol.delta import (
    Delta,
    Done,
    Fault,
    FaultKind,
    ModelUsed,
    Reasoning,
    Text,
    Thread,
    ThreadKnown,
)
from proxy.protocol.finishing import Finisher
from proxy.protocol.verdicts import EFFECTS, problem_of
from proxy.protocol.web_events import WebAnswer
from proxy.services import leases, rotation
from proxy.services.ahead import Ahead
from proxy.services.chat import ChatPlan, Question, open_turn
from proxy.services.courier import Courier
from proxy.services.long_texts import cleaned
from proxy.services.placing import Placing
from proxy.services.settling import Outcome, Settled, settle
from proxy.services.threads import in_thread
from proxy.services.together import Ended, settle_soon
from proxy.upstream import web
from proxy.upstream.parting import part
from proxy.upstream.web import Broke, Opened

TERMINATE_SECONDS = 2.0
REJOINS = (0.2, 1.0, 3.0, 10.0)
"""Seconds before an answer that broke off is taken up again: so often at most."""
_BROKE_OFF = frozenset({FaultKind.CUT, FaultKind.TIMED_OUT})
"""The connection is gone, or dead. The answer is not: the upstream goes on with it (perplexity-web §15)."""
_AWAY = _BROKE_OFF | {FaultKind.UNREACHABLE, FaultKind.UNAVAILABLE}
"""It could not be taken up, and may be the next time."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """An answer that a process began which is gone: where it lives upstream, and what of it was told.

    With `or_anew` it is asked for once more where it cannot be had, unless text was told.
    """

    thread: Thread
    text: str = ""
    first_text_at: datetime | None = None
    lines: frozenset[str] = frozenset()
    or_anew: bool = True


class Ending(Protocol):
    """Keeps more of an answer than its turn does. May raise `Superseded`."""

    def keep(self, plan: ChatPlan, last: list[Delta], outcome: Outcome, settled: Settled) -> None:
        """In the transaction that settles it; `last` is what came with the end."""


class Judge(Protocol):
    """Decides whether a whole answer is one, before it counts as delivered."""

    async def judge(self, done: Done) -> None:
        """Raises the Problem that the answer ends in otherwise."""


class Relay:
    """Relays one answer, once. `plan` is None while no account had a free place: `take` waits for one.

    With `streams` text counts as delivered as it is handed out, without it only as a whole. `ahead` is the
    question if it is on its way already, as `plan` says.
    """

    def __init__(
        self,
        question: Question,
        plan: ChatPlan | None,
        *,
        streams: bool,
        ahead: Ahead | None = None,
        take: Callable[[], ChatPlan] | None = None,
        ending: Ending | None = None,
        resumed: Resumed | None = None,
        judge: Judge | None = None,
        rejoins: bool = False,
    ) -> None:
        self.question = question
        self.outcome = Outcome()
        self.settled = Settled()
        self._placing = Placing(plan)
        self._streams = streams
        self._ahead = ahead
        self._take = take or partial(open_turn, question)
        self._ending = ending
        self._resumed = resumed
        self._judge = judge
        self._told = resumed.text if resumed else ""
        self._last: list[Delta] = []
        self._thread = resumed.thread if resumed else Thread()
        self._answers = question.preference
        self._courier = Courier(question.enclosures)
        self._rejoins: tuple[float, ...] = REJOINS if rejoins else ()
        self._broke: Fault | None = None
        """What first broke off the answer that is taken up again."""
        self._lines: set[str] = set(resumed.lines) if resumed else set()
        self._finisher = self._new_finisher()
        if self._told and resumed:
            self.outcome.first_text_at = resumed.first_text_at or timezone.now()
            self.outcome.delivered = True
        self._settling: asyncio.Future[Settled] | None = None

    @property
    def plan(self) -> ChatPlan | None:
        """Where it is answered, as it is now."""
        return self._placing.plan

    async def deltas(self) -> AsyncGenerator[list[Delta], None]:
        """What each upstream read brought, never nothing; `Done` is the last.

        When `Done` comes, all is settled, and `settled` is known. Raises Problem; nothing is charged
        for it unless text was delivered before.
        """
        try:
            with leases.held(self.question.turn_id):
                if self.plan is None:
                    await self._placing.wait_for_place(self._take)
                while True:
                    fault: Fault | None = None
                    async with aclosing(self._attempt()) as reads:
                        async for deltas in reads:
                            if isinstance(deltas[-1], Fault):
                                fault = deltas[-1]
                                del deltas[-1]
                            await self._note(deltas)
                            text, end = self._parts(deltas)
                            if text:
                                yield text
                            if end:
                                await self._settle()
                                yield end
                    if fault is None:
                        return
                    await self._recover(fault)
        except Problem as problem:
            self.outcome.problem = problem
            raise
        finally:
            await self.give_up()

    async def give_up(self) -> None:
        """Leave and release whatever is not over. In place of `deltas` when nobody is there to read them."""
        if self._ahead is not None:
            self._ahead.leave()
        await self._settle()

    async def terminate(self) -> None:
        """Tell the upstream as well: a connection that closes stops nothing there (perplexity-web §15)."""
        if self.plan is None or not self._thread.entry:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_SECONDS):
                await web.terminate(self.plan.session, self._thread, self._answers)

    def _new_finisher(self) -> Finisher:
        return Finisher(self._told, keeps_marks=self.question.request.keeps_marks)

    async def _attempt(self) -> AsyncGenerator[list[Delta], None]:
        """One ask. The last list ends with `Done` or `Fault`."""
        opened = await self._ask()
        if isinstance(opened, Fault):
            yield [opened]
            return
        whole = False
        try:
            decoder, answer = SseDecoder(), WebAnswer(self.question.preference)
            self._finisher = self._new_finisher()
            while chunk := await opened.read():
                deltas = [delta for record in decoder.feed(chunk) for delta in answer.read(record)]
                if deltas and (deltas := await cleaned(self._finisher, deltas)):
                    whole = isinstance(deltas[-1], Done)
                    yield deltas
                if answer.over:
                    return
            yield self._finisher.pass_on(answer.close())
        except Broke as broke:
            yield [broke.fault]
        except SseTooLong:
            yield [Fault(FaultKind.BROKEN)]
        finally:
            await part(opened, whole=whole)

    async def _ask(self) -> Opened | Fault:
        """An answer whose rotated cookies are stored: before its text goes to anybody."""
        if (ahead := self._ahead) is not None:
            self._ahead = None
            return await self._kept(self._placing.planned, await ahead.answer())
        placing = self._placing
        async with rotation.in_turn(placing.planned.session.account_id) as cookies_may_be_old:
            if cookies_may_be_old:
                await placing.take_latest_cookies()
            plan = placing.planned
            if self._resumed:
                opened = await web.reconnect(plan.session, self._resumed.thread, self.question.preference)
            else:
                self._thread = Thread()
                brought = await self._courier.bring(plan)
                if isinstance(brought, Fault):
                    return brought
                plan = placing.plan = brought
                ask = replace(plan.ask, attachments=self._courier.addresses)
                opened = await web.ask(plan.session, ask, web.new_ids())
            return await self._kept(plan, opened)

    async def _kept(self, plan: ChatPlan, opened: Opened | Fault) -> Opened | Fault:
        if isinstance(opened, Opened):
            await rotation.keep_cookies(plan.session, opened)
        return opened

    async def _note(self, deltas: list[Delta]) -> None:
        """What is worth remembering; lines that an earlier attempt told are not told again."""
        outcome = self.outcome
        others = [delta for delta in deltas if not isinstance(delta, Text)]
        if outcome.first_text_at is None and len(others) < len(deltas):
            outcome.first_text_at = timezone.now()
            outcome.delivered = self._streams
        for delta in others:
            if isinstance(delta, ThreadKnown):
                self._thread = delta.thread
            elif isinstance(delta, ModelUsed):
                self._answers = delta.preference
        if any(isinstance(delta, Reasoning) for delta in others):
            deltas[:] = [delta for delta in deltas if not self._is_old(delta)]
        if deltas and isinstance(deltas[-1], Done):
            await self._judged(deltas[-1])
            outcome.done = deltas[-1]
            outcome.delivered = True
            self._last = deltas
            self._begin_to_settle()

    async def _judged(self, done: Done) -> None:
        """Raises the Problem that the answer ends in. Who leaves before the verdict has had no answer."""
        if self._judge is None:
            return
        try:
            await self._judge.judge(done)
        except Problem:
            self.outcome.done = done
            raise

    def _parts(self, deltas: list[Delta]) -> tuple[list[Delta], list[Delta]]:
        """What goes out at once, and what waits until all is settled: the end, and whatever came with it
        where both are kept together, or nothing is shown before."""
        if self.outcome.done is None:
            return deltas, []
        if self._streams and self._ending is None:
            return deltas[:-1], deltas[-1:]
        return [], deltas

    def _is_old(self, delta: Delta) -> bool:
        if not isinstance(delta, Reasoning):
            return False
        if delta.line in self._lines:
            return True
        self._lines.add(delta.line)
        self.outcome.reasoning.append(delta.line)
        return False

    async def _recover(self, fault: Fault) -> None:
        """Another plan to go on with. Raises the Problem that the answer ends in."""
        plan, effect = self._placing.planned, EFFECTS[fault.kind]
        if await self._rejoin(fault):
            return
        resumed, self._resumed = self._resumed, None
        if resumed and resumed.or_anew and not self._told:
            return  # it is gone, and nobody has seen a word of it: ask as if for the first time
        self.outcome.fault = fault
        if resumed or self.outcome.first_text_at is not None:
            raise problem_of(self._broke or fault)
        if plan.follows and effect.anew and fault.param is None:
            await self._placing.ask_anew()
        elif not await self._placing.refresh(fault):
            if not self._placing.may_move(fault):
                raise problem_of(fault)
            self.outcome.fault = None  # noted by the move
            await self._placing.move(fault)
        self.outcome.fault = None

    async def _rejoin(self, fault: Fault) -> bool:
        """Whether the answer is taken up (again) where it was told to, since only its connection broke."""
        resumed = self._resumed
        if resumed and await self._placing.refresh(fault):
            return True
        if fault.kind not in (_AWAY if resumed else _BROKE_OFF):
            return False
        if not self._rejoins or not self._thread.entry:
            return False
        self._broke = self._broke or fault
        pause, *later = self._rejoins
        # Silence has been waited for long enough: once more, and no further.
        self._rejoins = () if fault.kind is FaultKind.TIMED_OUT else tuple(later)
        await asyncio.sleep(pause)
        self._told = self._finisher.content if self._streams else ""
        self._resumed = Resumed(self._thread, self._told, or_anew=resumed is None or resumed.or_anew)
        return True

    async def _settle(self) -> None:
        """Once, and to its end, whoever is cancelled meanwhile, and however often: a cancelled scope of
        MCP's cancels every wait within it."""
        self.settled = await asyncio.shield(self._begin_to_settle())

    def _begin_to_settle(self) -> asyncio.Future[Settled]:
        if self._settling is None:
            self._settling = asyncio.ensure_future(self._end())
        return self._settling

    async def _end(self) -> Settled:
        plan = await self._placing.made()
        if plan is None:
            return Settled()
        self.outcome.text = self._finisher.content
        if self._ending is None:
            return await settle_soon(Ended(plan, self.outcome))
        record = partial(self._ending.keep, plan, self._last, self.outcome)
        return await in_thread(partial(settle, plan, self.outcome, record))
