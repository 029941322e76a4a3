"""The contract of a backend: submit, poll, cancel. One upstream call each, no database.

A backend never raises for what an upstream does: every failure is a `Refused` that says
which `Fault` it was. Deadlines are its own: no call outlives its share of a lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from django.conf import settings

from portal.wire.redact import redact
from research.protocol.outcome import Fault, Order, Refused, Snapshot, Stop, Submission

SHARE_OF_LEASE = 0.45
"""Total time of one upstream call: under half a lease, so that its answer finds it valid (STACK §4.3.4)."""


class Backend(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def takes_key(self) -> bool:
        """The upstream keeps one job per idempotency key, so sending again is harmless."""

    @property
    def sandbox(self) -> bool:
        """Its answers are simulated, and everything made from them is labelled so."""

    async def submit(self, order: Order) -> Submission: ...

    async def poll(self, upstream_id: str) -> Snapshot: ...

    async def cancel(self, upstream_id: str) -> Stop: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def exchange(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    *,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply | Refused:
    """One request and its whole answer, or why there is none.

    `UNREACHABLE` means that nothing was sent; `LOST` that it may have been.
    """
    try:
        async with asyncio.timeout(settings.RESEARCH_LEASE_SECONDS * SHARE_OF_LEASE):
            answer = await client.request(method, path, json=json, headers=dict(headers or {}))
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        return Refused(Fault.UNREACHABLE, f"The upstream cannot be reached: {_words(error)}")
    except (httpx.HTTPError, TimeoutError) as error:
        return Refused(Fault.LOST, f"The upstream's answer was lost: {_words(error)}")
    return Reply(answer.status_code, answer.headers, answer.content)


def _words(error: Exception) -> str:
    return redact(str(error))[:200] or type(error).__name__
