"""What goes wrong behind a portal while it is under load: its upstream flaps, and more on demand."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from bench.mixed.portals import SHAKY, Portal
from bench.mixed.visitor import Notes

FAULTS = (
    "server-error", "bad-gateway", "unavailable", "gateway-timeout", "drop", "cut", "not-json", "empty-body",
)  # fmt: skip
TIRING = ("rate-limit", "challenge")
PHASES = ("submit", "late", "poll", "cancel", "session", "quota", "models", "upload", "delete")
APIS = ("agent", "sonar", "web")
STANDINGS = ("blocked", "challenged", "forbidden", "rejected", "active")


class Flapping:
    """The upstream's troubles, one after the other, until `ended`. `told` counts them by name."""

    def __init__(self, portal: Portal, notes: Notes, seed: int) -> None:
        self.portal = portal
        self.notes = notes
        self.chance = random.Random(seed)
        self.ended = asyncio.Event()
        self.told: Counter[str] = Counter()
        self.deaths: list[float] = []
        """When the upstream was killed, unix seconds."""

    async def every(self, least: float, most: float, act: Callable[[], Awaitable[str]]) -> None:
        while not self.ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), self.chance.uniform(least, most))
                return
            # An upstream that is away takes no orders, and not every fault suits every API.
            with suppress(OSError):
                self.told[await act()] += 1

    async def fail_next(self) -> str:
        faults = TIRING if self.chance.random() < 0.05 else FAULTS
        fault, phase, api = (self.chance.choice(words) for words in (faults, PHASES, APIS))
        order = {"fault": fault, "phase": phase, "api": api, "times": self.chance.randint(1, 4)}
        await self._order("settings", {"fail_next": order})
        return "faults"

    async def shake(self) -> str:
        """Accounts are turned away by edge or backend, or told to slow down, and let in again."""
        account = self.chance.choice(SHAKY)
        flags = ["busy"] if self.chance.random() < 0.4 else []
        standing = self.chance.choice(STANDINGS)
        await self._order("web/account", {"account": account, "standing": standing, "flags": flags})
        return "shaken accounts"

    async def kill_upstream(self) -> str:
        sandbox = self.portal.sandbox
        self.deaths.append(time.time())
        await asyncio.to_thread(sandbox.kill)
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        await asyncio.to_thread(sandbox.start)
        return "upstream killed"

    async def kill_one(self) -> str:
        """SIGKILL to a process of the portal; it is back some seconds later."""
        server = self.chance.choice(self.portal.servers)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        await asyncio.to_thread(server.start)
        return f"{server.folder.name} killed"

    async def take_away(self) -> str:
        return await asyncio.to_thread(self.portal.take_away)

    async def calm(self) -> None:
        """All is well again, so that what is left is the portal's own."""
        await self._order("settings", {"fail_next": []})
        for account in SHAKY:
            await self._order("web/account", {"account": account, "standing": "active", "flags": []})

    async def _order(self, path: str, body: dict[str, Any]) -> None:
        await asyncio.to_thread(self.portal.sandbox.control, path, body)
