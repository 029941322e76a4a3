"""Backend `agent`: Perplexity's Agent API in background mode (perplexity-api §5).

It takes no idempotency key, so an answer lost on the way is an open question.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from portal.services.network import shared_client, shared_reader
from research.backends.base import Reply, Trace, exchange, read
from research.protocol import wire_agent
from research.protocol.glance import goes_on_silently
from research.protocol.outcome import Order, Refused, Running, Snapshot, Stop, Submission


@dataclass(frozen=True, slots=True)
class AgentBackend:
    base_url: str
    key: str
    sandbox: bool
    name: ClassVar[str] = "agent"
    takes_key: ClassVar[bool] = False
    carries_attached: ClassVar[bool] = True

    async def submit(self, order: Order) -> Submission:
        body, ignored = wire_agent.build_request(order)
        reply = await self._send("POST", "/v1/agent", body)
        if isinstance(reply, Refused):
            return reply
        return wire_agent.parse_created(reply.status, reply.headers, reply.body, _now(), ignored)

    async def trace(self, order: Order) -> Trace:
        return "unknown"  # there is no list to look it up in (§5.1)

    async def poll(self, upstream_id: str) -> Snapshot:
        reply = await read(shared_reader(self.base_url), f"/v1/agent/{upstream_id}", self._headers())
        if isinstance(reply, Refused):
            return reply
        if reply.status == 200 and goes_on_silently(reply.body):
            return Running()
        return wire_agent.parse_snapshot(reply.status, reply.headers, reply.body, _now())

    async def cancel(self, upstream_id: str) -> Stop:
        reply = await self._send("POST", f"/v1/agent/{upstream_id}/cancel", {})
        if isinstance(reply, Refused):
            return reply
        return wire_agent.parse_cancel(reply.status, reply.headers, reply.body, _now())

    async def _send(self, method: str, path: str, json: object = None) -> Reply | Refused:
        return await exchange(shared_client(self.base_url), method, path, json=json, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


def _now() -> datetime:
    return datetime.now(UTC)
