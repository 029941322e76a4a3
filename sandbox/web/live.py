"""What is open at this moment, and whom to wake when a run is stopped. It dies with the process."""

from __future__ import annotations

import asyncio
from collections import Counter


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)


class Live:
    """Open streams by account and in all, their peaks, and the entries that were stopped."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.peak_total = 0
        self._stopped: set[str] = set()
        self._alarms: dict[str, set[asyncio.Future[None]]] = {}

    @property
    def total(self) -> int:
        return self.open.total()

    def enter(self, account: str) -> None:
        self.open[account] += 1
        self.peak[account] = max(self.peak[account], self.open[account])
        self.peak_total = max(self.peak_total, self.total)

    def leave(self, account: str) -> None:
        self.open[account] -= 1

    def forget_peaks(self) -> None:
        self.peak = Counter(self.open)
        self.peak_total = self.total

    def stop(self, entry: str) -> None:
        self._stopped.add(entry)
        for alarm in self._alarms.get(entry, ()):
            _ring(alarm)

    def is_stopped(self, entry: str) -> bool:
        return entry in self._stopped

    async def wait(self, entry: str, seconds: float) -> None:
        """Sleeps, but no longer than until the entry is stopped."""
        loop = asyncio.get_running_loop()
        alarm = loop.create_future()
        timer = loop.call_later(seconds, _ring, alarm)
        self._alarms.setdefault(entry, set()).add(alarm)
        try:
            await alarm
        finally:
            timer.cancel()
            self._alarms[entry].discard(alarm)
            if not self._alarms[entry]:
                del self._alarms[entry]
