"""How long an answer may take, and how long it may say nothing (perplexity-web §5)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings

from proxy.protocol.web_request import RESEARCH

RESEARCH_SILENCE = 90.0
"""Deep research may wait a minute for answers to its questions."""
RESEARCH_TOTAL = 3600.0
_EVENT = re.compile(rb"(?:\A|[\r\n])[^:\r\n]")
"""The first byte of a line that is no comment."""


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
    _since: float | None = None
    """When the wait began that is under way."""
    _quiet: float = 0.0
    spoke: bool = False
    """Whether an event came."""

    @property
    def left(self) -> float:
        """Seconds that the upstream has until it must have said something."""
        now = time.monotonic()
        allowed = self.patience.silence if self.spoke else self.patience.first
        quiet = self._quiet + (0.0 if self._since is None else now - self._since)
        whole = self.patience.total - (now - self._started)
        return max(0.0, min(allowed - quiet, whole))

    def wait(self) -> None:
        self._since = time.monotonic()

    def heard(self, *, event: bool) -> None:
        if event:
            self._quiet = 0.0
            self.spoke = True
        elif self._since is not None:
            self._quiet += time.monotonic() - self._since
        self._since = None


class Alarm:
    """Rings when the upstream has had its time, while somebody waits for it.

    One timer serves many waits. It looks when the time could be over, which each event only puts off; the
    first one alone may bring it nearer, and sets it anew.
    """

    def __init__(self, watch: Watch, ring: Callable[[], None]) -> None:
        self._watch = watch
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_set = False

    def set(self) -> None:
        """Somebody begins to wait."""
        self._is_set = True
        self._watch.wait()
        if self._timer is None:
            self._timer = self._loop.call_later(self._watch.left, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._is_set:
            return  # nobody waits: the next wait sets it
        if left := self._watch.left:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._ring()

    def heard(self, *, event: bool) -> None:
        if event and not self._watch.spoke:
            self.stop()
        self._is_set = False
        self._watch.heard(event=event)

    def stop(self) -> None:
        """Nobody waits any more."""
        self._is_set = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
