"""Backend `responses`: any endpoint with OpenAI's Responses API in background mode (openai-compat §3).

Our key goes along as `Idempotency-Key`: who honours it, as another Sonde does, keeps one run for it.
Since nobody has to, an answer lost on the way is an open question.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote

from portal.services.network import shared_client, shared_reader
from research.backends.base import Reply, Trace, exchange, read
from research.protocol import wire_responses
from research.protocol.outcome import Order, Refused, Snapshot, Stop, Submission

PATH = "/responses"


@dataclass(frozen=True, slots=True)
class ResponsesBackend:
    """`model` is asked for where a preset names none."""

    base_url: str
    key: str
    model: str
    name: ClassVar[str] = "responses"
    takes_key: ClassVar[bool] = False
    carries_attached: ClassVar[bool] = True
    sandbox: ClassVar[bool] = False

    async def submit(self, order: Order) -> Submission:
        body, ignored = wire_responses.build_request(order, self.model)
        reply = await self._send(PATH, body, {"Idempotency-Key": order.upstream_key})
        if isinstance(reply, Refused):
            return reply
        return wire_responses.parse_created(reply.status, reply.headers, reply.body, _now(), ignored)

    async def trace(self, order: Order) -> Trace:
        return "unknown"  # it can only be looked up by an id that was never heard

    async def poll(self, upstream_id: str) -> Snapshot:
        path = f"{_path(upstream_id)}?include[]={wire_responses.SOURCES}"
        reply = await read(shared_reader(self.base_url), path, self._headers())
        if isinstance(reply, Refused):
            return reply
        return wire_responses.parse_snapshot(reply.status, reply.headers, reply.body, _now())

    async def cancel(self, upstream_id: str) -> Stop:
        reply = await self._send(f"{_path(upstream_id)}/cancel", {}, {})
        if isinstance(reply, Refused):
            return reply
        return wire_responses.parse_cancel(reply.status, reply.headers, reply.body, _now())

    async def _send(self, path: str, body: object, more: dict[str, str]) -> Reply | Refused:
        client = shared_client(self.base_url)
        return await exchange(client, "POST", path, json=body, headers={**self._headers(), **more})

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


def _path(upstream_id: str) -> str:
    return f"{PATH}/{quote(upstream_id, safe='')}"


def _now() -> datetime:
    return datetime.now(UTC)
