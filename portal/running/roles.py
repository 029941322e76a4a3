"""The single roles of a cluster that serve no requests: worker and beat."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, close_old_connections
from django.utils import timezone
from kombu.exceptions import OperationalError

from portal.celery import app
from portal.models.system import Heartbeat
from portal.running.parts import Beat, Part, Worker
from portal.running.signals import stop_signals
from portal.services import network

log = logging.getLogger(__name__)

WORKER_THREADS = 8
LOOK_SECONDS = 0.1
WATCH_SECONDS = 15.0
DEAF_AFTER = timedelta(seconds=60)


class Deaf(Exception):
    """Messages wait and nobody sweeps: Celery lost its broker without noticing (STACK §4.1)."""


def run_worker(on_ready: Callable[[], None]) -> None:
    """Work until told to stop. Errors: Deaf, which a supervisor answers with a fresh process."""
    _run([Worker(WORKER_THREADS)], on_ready, listen_for_deafness)


def run_beat(on_ready: Callable[[], None]) -> None:
    _run([Beat()], on_ready, lambda: None)


def listen_for_deafness() -> None:
    """Raise Deaf when the sweeper has been silent for a minute while the broker holds messages.

    A beat that died leaves the queue empty, a database that is away leaves no judgement.
    """
    try:
        last = Heartbeat.objects.filter(name="sweeper").values_list("at", flat=True).first()
        if last is not None and timezone.now() - last > DEAF_AFTER and _waiting():
            raise Deaf(f"no sweep since {last:%H:%M:%S} UTC while messages wait")
    except (DatabaseError, OperationalError, OSError):
        log.warning("the watch could not look at the database and the broker")
    finally:
        close_old_connections()


def _waiting() -> int:
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare("drive").message_count)


def _run(parts: Sequence[Part], on_ready: Callable[[], None], watch: Callable[[], None]) -> None:
    told = threading.Event()
    with stop_signals(told.set):
        for part in parts:
            part.start()
        try:
            _attend(parts, told, on_ready, watch)
        finally:
            for part in parts:
                part.stop()
            network.close()


def _attend(
    parts: Sequence[Part], told: threading.Event, on_ready: Callable[[], None], watch: Callable[[], None]
) -> None:
    while not all(part.ready.is_set() for part in parts):
        if told.wait(LOOK_SECONDS):
            return
    on_ready()
    while not told.wait(WATCH_SECONDS):
        watch()
