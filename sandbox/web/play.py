"""Playing an entry as an event stream: each record when it is due, with the trouble that its markers want."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial

from sandbox.web.frames import Frames
from sandbox.web.framing import END, HEARTBEAT, Write, writer, written
from sandbox.web.live import Live
from sandbox.web.plot import Shot, plot
from sandbox.web.stages import CLARIFIED, Stage
from sandbox.wire import Cut

_HEARTBEAT_SECONDS = 15.0
_STUCK = 0.66
_EVER = 3600.0
_ERROR = ("error", b"upstream unavailable")
_ENDLESS = b"x" * 65536
_ENDLESS_PIECES = 1024
_BURST = 65536
_ONE_BY_ONE = (
    "cut-stream",
    "error-stream",
    "end-stream",
    "idle-stream",
    "endless-line",
    "dribble",
    "split-utf8",
)


class Performance:
    """One playing of one entry, from its beginning or from where it stands now."""

    def __init__(self, frames: Frames, live: Live, clock: Callable[[], float]) -> None:
        self._frames, self._live, self._clock = frames, live, clock
        self._script, self._entry = frames.script, frames.entry
        self._write: Write = writer(self._script)
        self._stage = Stage()
        self.sent = 0
        self._pause = self._script.number("heartbeat", _HEARTBEAT_SECONDS) or _EVER

    def _due(self, at: float) -> float:
        entry, script = self._entry, self._script
        if at > _STUCK and (entry.fate == "stuck" or "stuck" in script):
            return float("inf")
        asked = script.number("clarify", 0) if at > CLARIFIED else 0
        return entry.created + script.number("first-frame", 0) + asked + at * entry.seconds

    def is_over(self) -> bool:
        """Whether everything was said by now."""
        shots = list(plot(self._frames))
        return self._past(shots, self._clock()) == len(shots)

    def _stopped(self) -> bool:
        return self._entry.stopped_at is not None or self._live.is_stopped(self._entry.id)

    def _past(self, shots: list[Shot], moment: float) -> int:
        """How many of the shots were due by then."""
        return sum(self._due(shot.at) <= moment for shot in shots)

    async def _silence(self, until: float) -> AsyncIterator[bytes]:
        """Heartbeats until a time, or until the entry is stopped."""
        while (left := until - self._clock()) > 0 and not self._stopped():
            await self._live.wait(self._entry.id, min(left, self._pause))
            if left > self._pause and not self._stopped():
                yield HEARTBEAT

    def _event(self, name: str, data: bytes) -> bytes:
        self.sent += 1
        return self._write(self.sent - 1, name, data)

    def _trouble(self, number: int) -> str:
        """What strikes before the event with this number."""
        found = ("cut-stream", "error-stream", "end-stream", "idle-stream")
        if number == 1 and "endless-line" in self._script:
            return "endless-line"
        return next((name for name in found if self._script.number(name, -1) == number), "")

    async def _strike(self, trouble: str) -> AsyncIterator[bytes | Cut]:
        if trouble == "cut-stream":
            yield Cut()
        elif trouble == "error-stream":
            yield self._event(*_ERROR)
        elif trouble == "endless-line":
            for _ in range(_ENDLESS_PIECES):
                yield _ENDLESS
        elif trouble == "idle-stream":
            async for heartbeat in self._silence(float("inf")):
                yield heartbeat

    async def _shoot(self, shots: Iterable[Shot], *, merged: int = 0) -> AsyncIterator[bytes]:
        """The records of these shots, then the end of the stream; a stop cuts them short.

        Records that are due at once come joined, up to `merged` bytes: a burst costs few writes.
        """
        joined = b""
        for shot in shots:
            if self._due(shot.at) > self._clock():
                if joined:
                    yield joined
                    joined = b""
                async for heartbeat in self._silence(self._due(shot.at)):
                    yield heartbeat
            if self._stopped():
                joined += self._event("message", self._frames.stopped(self.sent, self._stage))
                break
            joined += self._event("message", shot.record())
            self._stage = shot.stage
            if len(joined) >= merged:
                yield joined
                joined = b""
        if "no-end" not in self._script:
            joined += self._event(*END)
        if joined:
            yield joined

    async def _troubled(self) -> AsyncIterator[bytes | Cut]:
        """From the beginning, up to where the trouble lies."""
        async for event in self._shoot(plot(self._frames)):
            trouble = "" if event is HEARTBEAT else self._trouble(self.sent - 1)
            if trouble:
                self.sent -= 1
                async for struck in self._strike(trouble):
                    yield struck
                return
            yield event

    def from_the_beginning(self) -> AsyncIterator[bytes | Cut]:
        if not any(marker in self._script for marker in _ONE_BY_ONE):
            return self._shoot(plot(self._frames), merged=_BURST)
        return written(self._script, self._troubled())

    def resumed(self) -> AsyncIterator[bytes | Cut]:
        """After a reconnect (§15): all so far in one frame, then the rest; when it is over, the last one."""
        shots = list(plot(self._frames))
        past = self._past(shots, self._clock())
        if self._entry.stopped_at is not None:
            self._stage = shots[max(0, self._past(shots, self._entry.stopped_at) - 1)].stage
        if self._stopped() or past == len(shots):
            return written(self._script, self._shoot(shots[-1:]))
        stage = shots[past - 1].stage if past else Stage()
        first = Shot(0.0, partial(self._frames.snapshot, past, stage), stage)
        return written(self._script, self._shoot([first, *shots[past:]]))
