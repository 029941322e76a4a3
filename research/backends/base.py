"""The contract of a backend: submit, trace, poll, cancel. One upstream call each, no transaction.

A backend never raises for what an upstream does: every failure is a `Refused` that says
which `Fault` it was. Deadlines are its own: no call outlives its share of a lease.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from django.conf import settings

from portal.http import AsyncClient, CannotBeSent, ConnectFailed, HTTPError, Timeout
from portal.reader import Reader
from portal.wire.redact import redact
from research.protocol.outcome import Fault, Order, Refused, Snapshot, Stop, Submission, Submitted

SHARE_OF_LEASE = 0.45
"""Total time of one upstream call: under half a lease, so that its answer finds it valid (STACK §4.3.4)."""
SHARE_OF_CALL = 0.2
"""What of it the wait for a free connection, the connecting and the handshake may take each: a call
that runs out of time in one of these has not left, and is told from one that has."""
ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
LONGEST_BODY = 16 * 1024 * 1024
_CANNOT_BE_SENT = Refused(Fault.BAD_KEY, "No request can be made with the upstream's address and key.")


Trace = Submitted | Literal["unsent", "unknown"]
"""The job itself; or that nothing was ever sent; or that nobody can tell."""


class Backend(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def takes_key(self) -> bool:
        """The upstream keeps one job per idempotency key, so sending again is harmless."""

    @property
    def carries_attached(self) -> bool:
        """What is attached goes in the request itself: orders bring it along."""

    @property
    def sandbox(self) -> bool:
        """Its answers are simulated, and everything made from them is labelled so."""

    async def submit(self, order: Order) -> Submission: ...

    async def trace(self, order: Order) -> Trace:
        """The job that an earlier submission of this order has left, where it can be found. It is asked
        for when a worker died while sending, before anything is sent again."""

    async def poll(self, upstream_id: str) -> Snapshot: ...

    async def cancel(self, upstream_id: str) -> Stop: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def call_seconds() -> float:
    return float(settings.RESEARCH_LEASE_SECONDS * SHARE_OF_LEASE)


async def exchange(
    client: AsyncClient,
    method: str,
    path: str,
    *,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply | Refused:
    """One request and its whole answer, or why there is none.

    `UNREACHABLE` means that nothing was sent; `LOST` that it may have been.
    """
    seconds = call_seconds()
    patience = Timeout(seconds, connect=seconds * SHARE_OF_CALL, pool=seconds * SHARE_OF_CALL)
    try:
        async with asyncio.timeout(seconds):
            answer = await client.request(
                method, path, json=json, headers=dict(headers or {}), timeout=patience
            )
    except ConnectFailed as error:
        return _unreachable(error)
    except CannotBeSent:
        return _CANNOT_BE_SENT
    except (HTTPError, TimeoutError) as error:
        return _lost(error)
    return Reply(answer.status_code, answer.headers, answer.content)


async def read(reader: Reader, path: str, headers: Mapping[str, str]) -> Reply | Refused:
    """One GET of those that are made by the thousand; it may be repeated, whatever became of it."""
    try:
        async with asyncio.timeout(call_seconds()):
            answer = await reader.get(path, headers, at_most=LONGEST_BODY)
    except ConnectFailed as error:
        return _unreachable(error)
    except CannotBeSent:
        return _CANNOT_BE_SENT
    except (HTTPError, TimeoutError) as error:
        return _lost(error)
    return Reply(answer.status, answer.headers, answer.body)


def _unreachable(error: Exception) -> Refused:
    return Refused(Fault.UNREACHABLE, f"The upstream cannot be reached: {_words(error)}")


def _lost(error: Exception) -> Refused:
    return Refused(Fault.LOST, f"The upstream's answer was lost: {_words(error)}")


def _words(error: Exception) -> str:
    """For people, who have no use for the number that the system gives an error."""
    return redact(ERROR_NUMBER.sub("", str(error)))[:200] or type(error).__name__
