"""Celery's worker and beat as threads of this process, started and stopped by us.

Both modes use the same two: embedded mode runs them beside the web server, cluster mode alone in
processes of their own. Celery's programs would bring signal handlers, a banner and a schedule
file; the objects below them run outside the main thread as well (STACK §2.2.4).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from celery import Celery
from celery.beat import Scheduler
from celery.worker import state
from celery.worker.worker import WorkController
from django.conf import settings
from kombu.asynchronous import set_event_loop

from portal.celery import app, streams

log = logging.getLogger(__name__)

WORK = ("drive", "maint")
STREAM = "stream"
STREAM_THREADS = 32
"""Answers that one process writes at the same time; each waits for its upstream nearly always."""
DRAIN_SECONDS = 20.0
START_SECONDS = 30.0
LONGEST_TICK = 1
"""Seconds after which beat looks at its schedule again."""
PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before each new start of a part that ended by itself; the last repeats."""
STEADY_SECONDS = 60.0
"""A part that ran this long is started anew without a memory of earlier ends."""


class Part:
    """Something that runs in a thread until it is stopped, and is started anew when it ends earlier."""

    name = ""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._keep, name=self.name, daemon=True)

    def run(self) -> None:
        """The work itself; comes back soon after `interrupt`."""
        raise NotImplementedError

    def interrupt(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.thread.start()

    def wait_until_ready(self) -> bool:
        return self.ready.wait(START_SECONDS)

    def stop(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Let it finish what it is doing; False when it was still busy after `seconds`."""
        if not self.thread.is_alive():
            return True
        self.stopping.set()
        self.interrupt()
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def _keep(self) -> None:
        ends = 0
        while not self.stopping.is_set():
            started = time.monotonic()
            self._try(self.run)
            if self.stopping.is_set():
                return
            ends = 0 if time.monotonic() - started > STEADY_SECONDS else ends + 1
            log.error("the %s ended by itself and is started anew", self.name)
            self.stopping.wait(PAUSES[min(ends, len(PAUSES)) - 1])

    def _try(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:
            log.exception("the %s failed", self.name)


class Worker(Part):
    """Runs tasks in `concurrency` threads, and answers that are written for minutes in threads of their
    own, so that neither waits for the other. The two begin and end together."""

    name = "worker"

    def __init__(self, concurrency: int) -> None:
        super().__init__()
        self.concurrency = concurrency
        self._side_is_up = threading.Event()

    def run(self) -> None:
        state.should_stop = None
        # Made one after the other: what tasks there are is found out by importing them.
        side = self._controller(streams, (STREAM,), STREAM_THREADS, self._side_is_up.set)
        main = self._controller(app, WORK, self.concurrency, self._when_both_are_up)
        thread = threading.Thread(target=self._try, args=(partial(self._keep_beside, side),), daemon=True)
        thread.start()
        try:
            main.start()
        finally:
            self.interrupt()
            thread.join()

    def interrupt(self) -> None:
        state.should_stop = 0  # type: ignore[assignment]  # inferred from its first value, None
        # The memory transport looks up only when a message arrives, or after two seconds, and its loop
        # goes round once more after that: send two that every Celery knows and that do nothing.
        if not settings.CLUSTER:
            for queue in (WORK[0], STREAM) * 2:
                app.send_task("celery.accumulate", queue=queue)

    def _keep_beside(self, side: WorkController) -> None:
        try:
            side.start()
        finally:
            self._side_is_up.set()
            self.interrupt()

    def _when_both_are_up(self) -> None:
        self._side_is_up.wait()
        self.ready.set()

    def _controller(
        self, of: Celery, queues: Sequence[str], concurrency: int, when_up: Callable[[], object]
    ) -> WorkController:
        set_event_loop(None)  # or it would take the other's, and two threads would turn one loop
        return WorkController(
            app=of,
            queues=list(queues),
            pool_cls="threads",
            concurrency=concurrency,
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
            ready_callback=lambda consumer: when_up(),
        )


class Beat(Part):
    """Rings the periodic tasks; its schedule is in memory, where a restart rings them anew."""

    name = "beat"

    def run(self) -> None:
        scheduler = Scheduler(app, max_interval=LONGEST_TICK)
        self.ready.set()
        # Celery's own loop would sleep on for up to a second after it was told to stop.
        while not self.stopping.wait(scheduler.tick()):
            pass

    def interrupt(self) -> None:
        """It waits for nothing else."""
