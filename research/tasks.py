"""The worker's doors: a message says "look", the database says at what.

A message starts a loop that works until nothing is due, in one of a few lanes per kind of work: as
many tasks of that kind as this process does at once. A message that finds every lane taken is
dropped, since those who have them will come to what it meant. So an upstream that is slow to take
runs holds up neither those that are watched nor the sweep, and messages cannot pile up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery import shared_task
from celery.worker import state as worker

from portal.services.queue import ring
from research.services import advance, library_index, sweep
from research.services.lookout import Lookout
from research.services.watch import Watch

LANES = {"submit": 3, "poll": 2, "stop": 1, "tidy": 1}
"""Together fewer than a worker's threads, so that a sweep always finds one."""
SPELL = 60.0
"""Seconds after which a loop ends, and rings for another."""
REST = 0.05
"""Seconds between two batches of what can wait."""

_lanes = {name: threading.BoundedSemaphore(count) for name, count in LANES.items()}
_lookout = Lookout()


@shared_task(name="research.submit")
def submit() -> None:
    _work("submit", advance.submit_next)


@shared_task(name="research.poll")
def poll() -> None:
    watch = Watch()

    def look() -> bool:
        is_due = _lookout.take(watch)
        watch.look()
        return is_due

    _work("poll", look, watch.finish)


@shared_task(name="research.stop")
def stop() -> None:
    _work("stop", advance.stop_next)


@shared_task(name=library_index.INDEX)
def index() -> None:
    """In the lane of what can wait, and never without a rest: the sweep rings for what is left."""
    with _lane("tidy") as free:
        until = time.monotonic() + SPELL
        while free and library_index.index_next() and time.monotonic() < until and worker.should_stop is None:
            time.sleep(REST)


@shared_task(name="research.sweep")
def sweep_due() -> None:
    sweep.sweep()


@shared_task(name="research.tidy")
def tidy() -> None:
    with _lane("tidy") as free:
        if free:
            sweep.tidy_due()


def _work(kind: str, step: Callable[[], bool], last: Callable[[], None] = lambda: None) -> None:
    """Take `step` after step until one finds nothing to do, or the worker is told to stop; then the last.
    Where a spell ends before the work does, the next one is rung for."""
    goes_on = False
    with _lane(kind) as free:
        until = time.monotonic() + SPELL
        while free and (goes_on := step()) and time.monotonic() < until and worker.should_stop is None:
            pass
        last()
    if goes_on:
        ring(f"research.{kind}")


@contextmanager
def _lane(kind: str) -> Iterator[bool]:
    free = _lanes[kind].acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _lanes[kind].release()
