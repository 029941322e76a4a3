"""One response while its caller waits for it: its events as they come, its row when it is settled.

    deltas → feed → events for the caller
    the end, however it comes → keep, in the transaction that settles the turn → the last events, the row

The last events are made there, so that the caller reads exactly what is stored.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

from django.db import Error
from django.utils import timezone

from portal.wire.errors import Problem
from proxy.protocol.delta import Delta, Reasoning, Text, Thread, ThreadKnown
from proxy.protocol.functions_answer import BridgeAnswer, Called
from proxy.protocol.notices import appended, footer
from proxy.protocol.responses_stream import Closing, Event, ResponseStream
from proxy.services.bridge import Judge
from proxy.services.chat import ChatPlan, Question
from proxy.services.response_rows import write_end, write_thread
from proxy.services.settling import Outcome, Settled
from proxy.services.telling import footer_of, sonde_of
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

_writing: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class Making:
    """`stored`: there is a row; with `keeps_events` they are written with its end, and where the answer
    lives upstream as soon as that is known: a worker goes on with it, should this process die."""

    question: Question
    stream: ResponseStream
    stored: bool
    keeps_events: bool
    judge: Judge | None = None
    """With function tools: nothing of the answer is told before it was judged."""
    _ending: list[Event] | None = None
    _is_open: bool = False
    _kept: list[Event] = field(default_factory=list)
    _has_thread: bool = False

    def feed(self, deltas: list[Delta]) -> list[Event]:
        """The events of one read, on the event loop. Nothing opens the stream before there is something to
        say."""
        self._note_thread(deltas)
        if self.judge is None and not self._is_open and not any(map(_says_something, deltas)):
            return []
        self._is_open = True
        return self._noted(self.stream.feed([] if self.judge else deltas))

    def keep(self, plan: ChatPlan, last: list[Delta], outcome: Outcome, settled: Settled) -> None:
        """As `relay.Ending`: the last events, and the row."""
        self.end(plan, last, outcome, settled)
        if self.stored:
            text = "" if self.judge else outcome.text.strip()
            write_end(self.question.turn_id, self.stream.response, self._kept, text)

    def end(self, plan: ChatPlan, last: list[Delta], outcome: Outcome, settled: Settled) -> list[Event]:
        """The last events: made once, whoever asks first."""
        if self._ending is None:
            self._ending = self._noted(end_stream(self.stream, plan, last, outcome, settled, self.judge))
        return self._ending

    def last_events(self, problem: Problem) -> list[Event]:
        """The same for a caller who has been told something; `problem` where nobody knows better."""
        if self._ending is None:
            self._ending = self._noted(self.stream.fail(problem))
        return self._ending

    def _note_thread(self, deltas: list[Delta]) -> None:
        """Written beside the answer, which does not wait for it."""
        if self._has_thread or not self.keeps_events:
            return
        for delta in deltas:
            if isinstance(delta, ThreadKnown) and delta.thread.entry:
                self._has_thread = True
                task = asyncio.create_task(_write_thread(self.question, delta.thread))
                _writing.add(task)
                task.add_done_callback(_writing.discard)
                return

    def _noted(self, events: list[Event]) -> list[Event]:
        if self.keeps_events:
            self._kept += events
        return events


async def _write_thread(question: Question, thread: Thread) -> None:
    try:
        await in_thread(partial(write_thread, question.turn_id, thread))
    except Error as error:
        log.warning("a response's thread was not written down: %s", type(error).__name__)


def _says_something(delta: Delta) -> bool:
    return isinstance(delta, Text | Reasoning)


def end_stream(
    stream: ResponseStream,
    plan: ChatPlan,
    last: list[Delta],
    outcome: Outcome,
    settled: Settled,
    judge: Judge | None = None,
) -> list[Event]:
    """The last events of an answer that is whole, has failed, or was left."""
    if outcome.problem:
        return stream.fail(outcome.problem)
    if outcome.done is None:
        return stream.cancel()
    if judge:
        return _tell(stream, judge.answer, plan, settled)
    listed = footer(footer_of(plan.question, outcome.done.sources))
    closing = Closing(
        int(timezone.now().timestamp()),
        len(plan.query),
        outcome.done,
        appended([*([listed] if listed else []), *settled.notices]),
        sonde_of(plan.question, plan, settled, outcome.done),
    )
    return stream.feed(last) + stream.complete(closing)


def _tell(stream: ResponseStream, answer: BridgeAnswer, plan: ChatPlan, settled: Settled) -> list[Event]:
    """What the function bridge makes of an answer: without notices, footer and citations."""
    told = stream.call(answer.calls) if isinstance(answer, Called) else stream.feed([Text(answer.text)])
    closing = Closing(
        int(timezone.now().timestamp()), len(plan.query), sonde=sonde_of(plan.question, plan, settled)
    )
    return told + stream.complete(closing)
