"""Backend `web`: deep research through a web session of the account pool (perplexity-web §§8, 15).

It takes no idempotency key. A run's name upstream is that of our own row, which knows the account
and the thread, sealed; what a dead worker has sent is found by the run's key, once its thread was
known (proxy.services.deep_research).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from proxy.services import deep_research, deep_watch
from proxy.services.deep_research import Begun, NotBegun
from proxy.services.deep_watch import Unseen
from research.backends.base import Trace, call_seconds
from research.protocol import wire_web
from research.protocol.outcome import Fault, Order, Refused, Snapshot, Stop, Submission, Submitted


@dataclass(frozen=True, slots=True)
class WebBackend:
    sandbox: bool
    name: ClassVar[str] = "web"
    takes_key: ClassVar[bool] = False
    carries_attached: ClassVar[bool] = False

    async def submit(self, order: Order) -> Submission:
        built = wire_web.build_inquiry(order)
        if isinstance(built, Refused):
            return built
        inquiry, ignored = built
        begun = await deep_research.begin(inquiry, call_seconds())
        return Submitted(str(begun.id), ignored) if isinstance(begun, Begun) else _refused(begun)

    async def trace(self, order: Order) -> Trace:
        left = await deep_research.trace(UUID(order.upstream_key))
        if not isinstance(left, Begun):
            return left
        built = wire_web.build_inquiry(order)
        return Submitted(str(left.id), () if isinstance(built, Refused) else built[1])

    async def poll(self, upstream_id: str) -> Snapshot:
        seen = await deep_watch.look(UUID(upstream_id), call_seconds())
        if isinstance(seen, Unseen):
            return _unseen(seen)
        if seen.fault is not None:
            return wire_web.read_ended(seen.answer, seen.trail, seen.fault)
        if seen.is_over:
            return wire_web.read_finished(seen.answer, seen.trail)
        return wire_web.read_running(seen.answer, seen.trail, seen.progress)

    async def cancel(self, upstream_id: str) -> Stop:
        unseen = await deep_watch.stop(UUID(upstream_id), call_seconds())
        return "stopping" if unseen is None else _unseen(unseen)


def _refused(refusal: NotBegun) -> Refused:
    if refusal.is_busy:
        return Refused(Fault.BUSY, refusal.message, refusal.retry_after)
    if refusal.is_used_up:
        return Refused(Fault.QUOTA, refusal.message)
    return wire_web.refused(refusal.message, refusal.fault, refusal.retry_after)


def _unseen(unseen: Unseen) -> Refused:
    if unseen.is_gone:
        return Refused(Fault.GONE, "The upstream does not know this thread any more.")
    return wire_web.refused(wire_web.told(unseen.fault), unseen.fault, unseen.fault.retry_after)
