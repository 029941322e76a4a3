"""Backends `sonar` and `sonar-sdk`: the legacy async API's two path families (perplexity-api §3).

Same bodies, other paths. A submission carries our idempotency key, so it may be sent again.
There is no cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote

from portal.services.network import shared_client, shared_reader
from research.backends.base import Reply, Trace, exchange, read
from research.protocol import wire_sonar
from research.protocol.outcome import Order, Refused, Snapshot, Stop, Submission


@dataclass(frozen=True, slots=True)
class SonarBackend:
    base_url: str
    key: str
    sandbox: bool
    name: ClassVar[str] = "sonar"
    path: ClassVar[str] = "/v1/async/sonar"
    takes_key: ClassVar[bool] = True
    carries_attached: ClassVar[bool] = True

    async def submit(self, order: Order) -> Submission:
        body, ignored = wire_sonar.build_request(order)
        reply = await self._send("POST", self.path, body)
        if isinstance(reply, Refused):
            return reply
        return wire_sonar.parse_created(reply.status, reply.headers, reply.body, datetime.now(UTC), ignored)

    async def trace(self, order: Order) -> Trace:
        return "unknown"  # it need not be found: with its key it is only sent again

    async def poll(self, upstream_id: str) -> Snapshot:
        reply = await read(
            shared_reader(self.base_url), f"{self.path}/{quote(upstream_id, safe='')}", self._headers()
        )
        if isinstance(reply, Refused):
            return reply
        return wire_sonar.parse_snapshot(reply.status, reply.headers, reply.body, datetime.now(UTC))

    async def cancel(self, upstream_id: str) -> Stop:
        return "unsupported"

    async def _send(self, method: str, path: str, json: object = None) -> Reply | Refused:
        return await exchange(shared_client(self.base_url), method, path, json=json, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


class SonarSdkBackend(SonarBackend):
    name = "sonar-sdk"
    path = "/async/chat/completions"
