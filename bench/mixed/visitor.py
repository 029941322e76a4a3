"""One of many clients, what it asks for, and what it notes of the answers."""

from __future__ import annotations

import asyncio
import json
import random
import time
from asyncio.trsock import TransportSocket
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR
from typing import Any, TypeVar
from uuid import uuid4

import httpx

Result = TypeVar("Result")
PATIENCE = 120.0
"""Seconds that any answer may take, whatever the upstream does."""
TOLD = frozenset({429, 502, 503, 504})
"""Failures that a caller is told when the upstream fails, or when there is no place."""
ENVELOPE = {"message", "type", "code", "param"}
# Of `sandbox.scenarios`, where each is told.
CALM = (
    "", "", "", "slow=2", "first-frame=3", "duration=6", "dribble=40",
    "split-utf8", "resend-chunks", "think", "huge=100",
    "terminal-kib=300", "shape=patches", "shape=workflow", "marks-range",
)  # fmt: skip
TROUBLED = (
    "idle-stream=3", "idle-stream=0", "cut-stream=5", "cut-stream=0", "end-stream=3", "error-stream=4",
    "server-error=2", "bad-gateway", "edge-error=1", "unavailable=3", "drop=2", "drop", "cut=1",
    "empty-body=1", "not-json=1", "error-frame", "failed", "no-end", "no-completed", "retract", "empty",
    "broken-json", "endless-line", "gateway-timeout=6",
)  # fmt: skip
# After these an account rests.
TIRING = (
    "rate-limit=1", "challenge=1", "challenge-ok=1", "upsell", "authwall", "error-code", "unauthorized=1",
    "forbidden=1",
)  # fmt: skip
LONG = ("duration=25", "duration=25 huge=60")
SILENT = ("slow=20", "first-frame=20", "duration=25 first-frame=10")
OF_RUNS = (
    "", "", "", "duration=8", "slow=2", "poll-slow=2", "failed",
    "rate-limit=2", "unavailable=2", "poll-server-error=2", "poll-drop=3",
    "poll-rate-limit=2 retry-after=1", "drop=1", "challenge=1",
    "retired", "incomplete", "cut=1", "late-drop=1",
)  # fmt: skip


class Broken(Exception):
    """The connection broke, or the answer was an error that may be: the visit is over."""


@dataclass(slots=True)
class Notes:
    """What all visitors saw. `may_break` is set while something is killed or taken away."""

    may_break: bool = False
    may_lose: bool = False
    """A process that is killed in the middle of an answer is not paid for it."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrongs: Counter[str] = field(default_factory=Counter)
    left: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Questions whose caller left in the middle, by tag: the kind of visit, and when its side of the
    connection was shut (unix seconds)."""
    promised: set[str] = field(default_factory=set)
    """Ids of runs and responses that were taken in: each has to come to an end."""
    told_text: int = 0
    """Chats of which text was seen: paid."""
    asked: int = 0

    def wrong(self, what: str) -> None:
        self.wrongs[what[:300]] += 1


@dataclass(slots=True)
class Visitor:
    """A user of the portal at one of its doors. `session` is the cookie of the same user's browser."""

    client: httpx.AsyncClient
    key: str
    session: str
    notes: Notes
    chance: random.Random
    kind: str = ""
    markers: str = ""
    """Of its last question."""
    socket: TransportSocket | None = None
    """Of its last request with `extensions`."""

    @property
    def host(self) -> str:
        return self.client.base_url.host

    @property
    def port(self) -> int:
        return self.client.base_url.port or 80

    def question(self, *markers: str) -> tuple[str, str]:
        """Another question each time, with one of these or none: (tag, text)."""
        tag = f"tide-{uuid4().hex[:16]}"
        self.notes.asked += 1
        self.markers = self.chance.choice(markers)
        asked = [f"[sandbox:{marker}]" for marker in self.markers.split()]
        return tag, " ".join([f"Why do tides turn, {tag}?", *asked])

    def trouble(self) -> tuple[str, ...]:
        (kind,) = self.chance.choices((CALM, TROUBLED, TIRING), (74, 24, 2))
        return kind

    @property
    def extensions(self) -> dict[str, Any]:
        """For a request in the midst of which the visitor may leave."""
        return {"trace": self._trace}

    async def _trace(self, event: str, told: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self.socket = told["return_value"].get_extra_info("socket")

    def leave(self, tag: str) -> None:
        """Now, whatever else this process has to do: the kernel tells the portal at once."""
        if self.socket is not None:
            with suppress(OSError):  # the portal was first
                self.socket.shutdown(SHUT_RDWR)
        self.notes.left[tag] = self.kind, time.time()

    async def leave_after(
        self, seconds: float, tag: str, visit: Coroutine[Any, Any, Result]
    ) -> Result | None:
        """What the visit gives; None for one that is left because it takes longer."""
        under_way = asyncio.ensure_future(visit)
        try:
            await asyncio.wait({under_way}, timeout=seconds)
            if under_way.done():
                return under_way.result()
            self.leave(tag)
        finally:
            under_way.cancel()
        await asyncio.wait({under_way})
        return None

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A good answer. Raises Broken for one that may be otherwise."""
        answer = await self.client.request(method, path, **more)
        self.judge(answer, answer.content)
        return answer

    def judge(self, answer: httpx.Response, content: bytes) -> None:
        """Raises Broken for every answer but a good one; an error that must not be is noted."""
        if answer.status_code < 300:
            return
        told = told_error(content)
        outcome = f"{answer.status_code} {told['message'][:60] if told else ''}"
        if answer.status_code not in TOLD or told is None:
            self.notes.wrong(f"{self.kind}: {answer.status_code} {content[:200]!r}")
        elif answer.status_code == 503 and "retry-after" not in answer.headers:
            self.notes.wrong(f"{self.kind}: 503 without Retry-After: {content[:200]!r}")
        raise Broken(outcome)

    def judge_late(self, error: Any) -> None:
        """An error in the midst of a stream."""
        if not isinstance(error, dict) or not error.get("message") or error.get("code") == "server_error":
            self.notes.wrong(f"{self.kind}: told in the stream: {error!r}")

    async def records(self, answer: httpx.Response) -> AsyncGenerator[str, None]:
        """The data of each record of an event stream."""
        if answer.status_code >= 300:
            self.judge(answer, await answer.aread())
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                yield line[5:].strip()


def told_error(content: bytes) -> dict[str, Any] | None:
    """What an envelope holds; None for anything else."""
    try:
        error = json.loads(content)["error"]
        return error if set(error) == ENVELOPE and error["message"] else None
    except (ValueError, KeyError, TypeError):
        return None
