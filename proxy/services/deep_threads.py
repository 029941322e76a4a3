"""What every call about a deep research needs: its row, its thread, an open answer that is read in part."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial

from portal.services import sealing
from portal.wire.sse import SseDecoder, SseRecord, SseTooLong
from proxy.models.research import DeepResearch
from proxy.protocol.delta import Fault, FaultKind, Thread
from proxy.protocol.web_events import WebAnswer
from proxy.services import rotation
from proxy.services.threads import in_thread
from proxy.upstream.web import Broke, Opened, Session


class Reading:
    """Reads an open answer as far as is wanted."""

    def __init__(self, opened: Opened, answer: WebAnswer) -> None:
        self._opened = opened
        self._answer = answer
        self._decoder = SseDecoder()

    async def until(self, is_enough: Callable[[], bool]) -> Fault | None:
        """Read on until it is enough, or over. The fault is how it ended, or broke off.

        What came in one piece is read to its end first: a snapshot is often followed by the stream's end.
        """
        try:
            while chunk := await self._opened.read():
                fault = self._read(self._decoder.feed(chunk))
                if fault is not None or self._answer.over or is_enough():
                    return fault
        except Broke as broke:
            return broke.fault
        except SseTooLong:
            return Fault(FaultKind.BROKEN)
        return Fault(FaultKind.CUT)

    def _read(self, records: list[SseRecord]) -> Fault | None:
        for record in records:
            deltas = self._answer.read(record)
            if deltas and isinstance(deltas[-1], Fault):
                return deltas[-1]
        return None

    async def close(self) -> None:
        await self._opened.close()


async def open_answer(
    session: Session, call: Callable[[Session], Awaitable[Opened | Fault]]
) -> Opened | Fault:
    """An answer whose rotated cookies are stored; the account's other questions wait where they must."""
    async with rotation.in_turn(session.account_id) as cookies_may_be_old:
        if cookies_may_be_old:
            session = await in_thread(partial(rotation.latest_session, session))
        opened = await call(session)
        if isinstance(opened, Opened):
            await rotation.keep_cookies(session, opened)
        return opened


def thread_of(row: DeepResearch) -> Thread | None:
    """None where it is not known, or sealed by a key that is gone."""
    if not row.thread:
        return None
    try:
        return Thread(**json.loads(sealing.unseal(row, "thread")))
    except sealing.SealError:
        return None


def sealed(thread: Thread, row: DeepResearch) -> str:
    return sealing.seal(json.dumps(asdict(thread)), row, "thread")


def let_go(row: DeepResearch) -> bool:
    """Give its place back; whether it was held."""
    held = DeepResearch.objects.filter(pk=row.pk).exclude(state=DeepResearch.State.ENDED)
    return bool(held.update(state=DeepResearch.State.ENDED, held_until=None))


def model_of(answer: WebAnswer) -> str:
    """The preference that answers, "" as long as no frame has named one."""
    used = answer.so_far().model
    return used.preference[:80] if used else ""
