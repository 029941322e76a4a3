"""What the doors of one sandbox share: store, clock, settings, and the faults queued for later calls."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from starlette.responses import Response

from sandbox.faults import FAULTS, Exchange
from sandbox.scenarios import Api, Phase, Script, UnreadableMarker, read_script
from sandbox.store import Store
from sandbox.wire import refusal

Mode = Literal["legacy-live", "legacy-retired", "agent"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Refused(Exception):
    """Ends a request early with the given answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _usual_seconds() -> float:
    given = os.environ.get("SANDBOX_SECONDS", "8")
    try:
        return max(0.0, float(given))
    except ValueError:
        raise SystemExit(f"SANDBOX_SECONDS must be a number of seconds, not {given!r}") from None


@dataclass(slots=True)
class QueuedFault:
    """A fault for the next `times` calls of a phase and an API (`any` fits all)."""

    fault: str
    phase: str = "any"
    api: str = "any"
    times: int = 1

    def fits(self, api: Api, phase: Phase | Literal["list"]) -> bool:
        return self.api in ("any", api) and self.phase in ("any", phase)


@dataclass(slots=True)
class World:
    """One running sandbox. `seconds` is the usual length of a run; times are unix seconds."""

    store: Store
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    mode: Mode = "legacy-live"
    seconds: float = 8.0
    queued: list[QueuedFault] = field(default_factory=list)

    def load(self, mode: Mode | None, seconds: float | None) -> None:
        """Settings as given, else as stored by an earlier process on this file, else as usual."""
        stored = json.loads(self.store.setting("settings") or "{}")
        self.mode = mode or stored.get("mode", "legacy-live")
        self.seconds = seconds if seconds is not None else stored.get("seconds", _usual_seconds())
        self.queued = [QueuedFault(**fault) for fault in stored.get("queued", ())]

    def save(self) -> None:
        queued = [asdict(fault) for fault in self.queued]
        self.store.set("settings", json.dumps({"mode": self.mode, "seconds": self.seconds, "queued": queued}))

    def _next_fault(self, api: Api, phase: Phase | Literal["list"]) -> str | None:
        for fault in self.queued:
            if fault.fits(api, phase):
                fault.times -= 1
                self.queued = [other for other in self.queued if other.times > 0]
                self.save()
                return fault.fault
        return None

    def meet(self, api: Api, phase: Phase, script: Script, attempt: int, answer: bytes | None = None) -> None:
        """Raises Refused with the fault that stands in the way of this attempt, if one does."""
        self.meet_queued(api, phase, answer)
        name = script.fault(phase, attempt)
        if name is not None:
            wait = script.markers.get("retry-after")
            raise Refused(FAULTS[name].answer(Exchange(answer, wait, self.clock())))

    def meet_queued(self, api: Api, phase: Phase | Literal["list"], answer: bytes | None = None) -> None:
        """Raises Refused with the next fault that the control door queued for such a call, if any."""
        name = self._next_fault(api, phase)
        if name is not None:
            raise Refused(FAULTS[name].answer(Exchange(answer, None, self.clock())))


def script_for(question: str, api: Api) -> Script:
    """The question's script; a marker that cannot be read is refused with 400, loudly rather than ignored."""
    try:
        return read_script(question, api)
    except UnreadableMarker as unreadable:
        raise Refused(refusal(400, "invalid_request", str(unreadable))) from unreadable
