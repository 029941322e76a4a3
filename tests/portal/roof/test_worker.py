"""The worker's two pools: what takes long in one holds up nothing in the other."""

from __future__ import annotations

import threading

import pytest
from celery import shared_task

from portal.celery import app, streams
from portal.running.parts import Worker
from portal.running.signals import nothing

PATIENCE = 30.0
free = threading.Event()
begun = threading.Semaphore(0)


@shared_task(name="tests.hold")
def hold() -> None:
    begun.release()
    free.wait(2 * PATIENCE)


@shared_task(name="tests.begin")
def begin() -> None:
    begun.release()


@pytest.mark.slow
@pytest.mark.embedded
def test_it_begins_an_answer_though_every_other_thread_is_busy() -> None:
    free.clear()
    worker = Worker(1)
    worker.start()
    try:
        assert worker.wait_until_ready()
        app.send_task("tests.hold", queue="drive")
        assert begun.acquire(timeout=PATIENCE)

        app.send_task("tests.begin", queue="stream")

        assert begun.acquire(timeout=PATIENCE)
    finally:
        free.set()
        assert worker.stop()


@pytest.mark.cluster
def test_it_gives_each_pool_a_loop_of_its_own() -> None:
    """Celery would have both threads turn one loop, and the first to end close it under the other."""
    worker = Worker(1)

    side, main = (worker._controller(of, ("drive",), 1, nothing) for of in (streams, app))

    assert side.hub is not main.hub
