"""Where the pollers of a process stand one at a time, for what is due next.

Whoever stands there waits for it, leases it, and leaves the place to the next one before he looks.
So no run waits for a sweep, two never ask for the same runs at once, and while there is more to do
than one can, all are at it.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from django.utils import timezone

from research.services.watch import AT_ONCE, Watch, due_to_poll

SOON = timedelta(seconds=5)
"""What is due later than that is left to the sweep: a second more or less matters little by then."""
NAP = 1.0
"""Seconds after which who waits asks again: something may have become due before the rest."""
PAUSE = 0.25
"""Seconds from a lease of less than a batch to the next one: few statements for many runs."""


class Lookout:
    def __init__(self) -> None:
        self._place = threading.Lock()
        self._not_before = 0.0

    def take(self, watch: Watch) -> bool:
        """Wait for a while, and lease for `watch` what is due; False when nothing will be soon.

        Who still has looks under way waits neither for runs nor for the place.
        """
        if not self._place.acquire(blocking=not watch.is_looking):
            return True
        try:
            wait = 0.0 if watch.is_looking else self._seconds_to_next()
            if wait is None:
                return False
            time.sleep(min(wait, NAP))
            if wait <= NAP:
                self._lease(watch)
            return True
        finally:
            self._place.release()

    def _seconds_to_next(self) -> float | None:
        now = timezone.now()
        due = due_to_poll(now + SOON).order_by("next_run_at").values_list("next_run_at", flat=True).first()
        if due is None:
            return None
        return max(0.0, (due - now).total_seconds(), self._not_before - time.monotonic())

    def _lease(self, watch: Watch) -> None:
        began = time.monotonic()
        is_less = watch.take() < AT_ONCE
        self._not_before = began + PAUSE if is_less else began
