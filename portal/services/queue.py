"""The doorbell: tells workers by name that there is work, once the transaction has committed.

The database is the queue and the sweeper re-reads it every second, so a lost ring costs a
second and nothing else. Whoever rings waits for no broker, be it hung, full or away: a thread of
this process sends, and of the same message asked for many times meanwhile it sends one (STACK §4.1).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import partial

from celery import current_app
from django.db import transaction

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""Different messages that wait to be sent; more are dropped."""
REST = 0.02
"""Seconds after a message in which the same is not sent again: sending costs a third of a start."""

Ring = tuple[str, tuple[str, ...]]


class Bell:
    """Messages to be sent, and the thread that sends them; it is started by the first."""

    def __init__(self) -> None:
        self._waiting: dict[Ring, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def ring(self, task: str, *arguments: str) -> None:
        with self._changed:
            if len(self._waiting) < MOST_WAITING:
                self._waiting[task, arguments] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                rings, self._waiting = self._waiting, {}
            for task, arguments in rings:
                _send(task, arguments)
            time.sleep(REST)


_bell = Bell()


def _new_bell() -> None:
    """A forked child inherits the bell but not its thread, and maybe a lock that nobody frees."""
    global _bell
    _bell = Bell()


os.register_at_fork(after_in_child=_new_bell)


def ring(task: str, *arguments: str) -> None:
    """Have `task` sent now; never raises, never waits."""
    _bell.ring(task, *arguments)


def ring_after_commit(task: str, *arguments: str) -> None:
    """Have `task` sent when the present transaction has committed, or now when there is none."""
    transaction.on_commit(partial(ring, task, *arguments), robust=True)


def _send(task: str, arguments: tuple[str, ...]) -> None:
    try:
        current_app.send_task(task, args=arguments, ignore_result=True)
    except Exception as error:  # a broker that is full says so in errors of its own
        log.warning("could not ring %s: %s", task, str(error) or type(error).__name__)
