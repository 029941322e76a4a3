"""What the doors of one sandbox share: store, clock, settings, and the faults queued for later calls."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from starlette.responses import Response

from sandbox.faults import FAULTS, Exchange, Fault
from sandbox.markers import Api, Phase
from sandbox.scenarios import Script, UnreadableMarker, read_script
from sandbox.store import Store
from sandbox.web.faults import WEB_FAULTS
from sandbox.wire import refusal

WEB_VERSION = "2.18"
Mode = Literal["legacy-live", "legacy-retired", "agent"]
MODES: tuple[Mode, ...] = get_args(Mode)
# What a call is to the faults queued at the control door; a question's markers strike only at some of them.
OtherCall = Literal[
    "list", "session", "delete", "quota", "models", "upload", "storage", "process", "solve", "notify"
]
Call = Phase | OtherCall
CALLS = (*get_args(Phase), *get_args(OtherCall))


class Refused(Exception):
    """Ends a request early with the given answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _seconds_of(variable: str, usual: float) -> float:
    given = os.environ.get(variable, "") or str(usual)
    try:
        return max(0.0, float(given))
    except ValueError:
        raise SystemExit(f"{variable} must be a number of seconds, not {given!r}") from None


def faults_of(api: Api) -> Mapping[str, Fault]:
    """The faults that calls of an API can meet."""
    return WEB_FAULTS if api == "web" else FAULTS


@dataclass(slots=True)
class QueuedFault:
    """A fault for the next `times` calls of a phase and an API (`any` fits all)."""

    fault: str
    phase: str = "any"
    api: str = "any"
    times: int = 1

    def fits(self, api: Api, phase: Call) -> bool:
        wanted = self.api in ("any", api) and self.phase in ("any", phase)
        return wanted and self.fault in faults_of(api)


@dataclass(slots=True)
class World:
    """One running sandbox. `seconds` is the usual length of a run, `chat_seconds` that of a web chat answer
    (3, but never more than a run's), `web_version` the version that the web accepts; times are unix seconds.
    """

    store: Store
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    mode: Mode = "legacy-live"
    seconds: float = 8.0
    chat_seconds: float = 3.0
    web_version: str = WEB_VERSION
    queued: list[QueuedFault] = field(default_factory=list)

    def load(self, mode: Mode | None, seconds: float | None, chat_seconds: float | None) -> None:
        """Settings as given, else as stored by an earlier process on this file, else as usual."""
        stored = json.loads(self.store.setting("settings") or "{}")
        self.mode = mode or stored.get("mode", "legacy-live")
        self.seconds = (
            seconds if seconds is not None else stored.get("seconds", _seconds_of("SANDBOX_SECONDS", 8))
        )
        usual = min(3.0, self.seconds)
        self.chat_seconds = (
            chat_seconds
            if chat_seconds is not None
            else stored.get("chat_seconds", _seconds_of("SANDBOX_CHAT_SECONDS", usual))
        )
        self.web_version = stored.get("web_version", WEB_VERSION)
        self.queued = [QueuedFault(**fault) for fault in stored.get("queued", ())]

    def settings(self) -> dict[str, Any]:
        """What the control door may change, but for the queued faults."""
        names = ("mode", "seconds", "chat_seconds", "web_version")
        return {name: getattr(self, name) for name in names}

    def change(self, settings: dict[str, Any]) -> None:
        """Sets what `settings` returned, changed."""
        for name, value in settings.items():
            setattr(self, name, value)

    def save(self) -> None:
        queued = [asdict(fault) for fault in self.queued]
        self.store.set("settings", json.dumps({**self.settings(), "queued": queued}))

    def _next_fault(self, api: Api, phase: Call) -> str | None:
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
            raise Refused(faults_of(api)[name].answer(Exchange(answer, wait, self.clock())))

    def meet_queued(self, api: Api, phase: Call, answer: bytes | None = None) -> None:
        """Raises Refused with the next fault that the control door queued for such a call, if any."""
        name = self._next_fault(api, phase)
        if name is not None:
            raise Refused(faults_of(api)[name].answer(Exchange(answer, None, self.clock())))


def script_for(question: str, api: Api) -> Script:
    """The question's script; a marker that cannot be read is refused with 400, loudly rather than ignored."""
    try:
        return read_script(question, api)
    except UnreadableMarker as unreadable:
        raise Refused(refusal(400, "invalid_request", str(unreadable))) from unreadable
