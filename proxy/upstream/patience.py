"""How long an answer may take, and how long it may say nothing (perplexity-web §5)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from django.conf import settings

from proxy.protocol.web_request import RESEARCH

RESEARCH_SILENCE = 90.0
"""Deep research may wait a minute for answers to its questions."""
RESEARCH_TOTAL = 3600.0
_EVENT = re.compile(rb"(?:\A|[\r\n])[^:\r\n]")
"""The first byte of a line that is no comment."""


class OutOfPatience(Exception):
    """The upstream took too long. The text says for what."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: until the first event, between events, for the whole answer.

    Heartbeats are no events: an upstream that only breathes is silent.
    """

    first: float
    silence: float
    total: float


def patience_for(preference: str) -> Patience:
    if preference == RESEARCH:
        return Patience(settings.CHAT_FIRST_SECONDS, RESEARCH_SILENCE, RESEARCH_TOTAL)
    return Patience(settings.CHAT_FIRST_SECONDS, settings.CHAT_SILENCE_SECONDS, settings.CHAT_TOTAL_SECONDS)


@dataclass(slots=True)
class Pulse:
    """Tells event bytes from comments and blank lines, however the stream is cut."""

    _begun: bytes = b""
    """The first byte of the line that has no end yet."""

    def is_event(self, chunk: bytes) -> bool:
        chunk = self._begun + chunk
        line = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        self._begun = chunk[line : line + 1]
        return _EVENT.search(chunk) is not None


@dataclass(slots=True)
class Watch:
    """Keeps the time of one answer. Only waiting for the upstream counts as its silence."""

    patience: Patience
    _started: float = field(default_factory=time.monotonic)
    _quiet: float = 0.0
    _spoke: bool = False

    @property
    def left(self) -> float:
        """Seconds that the upstream has until it must have said something."""
        allowed = self.patience.silence if self._spoke else self.patience.first
        whole = self.patience.total - (time.monotonic() - self._started)
        return max(0.0, min(allowed - self._quiet, whole))

    def waited(self, seconds: float, *, for_event: bool) -> None:
        self._quiet = 0.0 if for_event else self._quiet + seconds
        self._spoke = self._spoke or for_event


async def watched(chunks: AsyncGenerator[bytes, None], watch: Watch) -> AsyncGenerator[bytes, None]:
    """The chunks as they come. Raises `OutOfPatience`."""
    pulse = Pulse()
    while True:
        before = time.monotonic()
        try:
            async with asyncio.timeout(watch.left):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise OutOfPatience from None
        if chunk is None:
            return
        watch.waited(time.monotonic() - before, for_event=pulse.is_event(chunk))
        yield chunk
