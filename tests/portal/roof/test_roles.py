"""When a worker takes itself for deaf."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone
from kombu import Connection

from portal.celery import app
from portal.models.system import Heartbeat
from portal.running.roles import Deaf, listen_for_deafness

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.cluster]


@pytest.fixture(autouse=True)
def _an_empty_queue() -> Iterator[None]:
    purge()
    yield
    purge()


def purge() -> None:
    with app.connection_for_write() as connection, connection.SimpleQueue("drive") as queue:
        queue.clear()


def the_last_sweep_was(seconds: int) -> None:
    Heartbeat.objects.create(name="sweeper", at=timezone.now() - timedelta(seconds=seconds))


def test_it_is_deaf_when_messages_wait_and_nobody_sweeps() -> None:
    the_last_sweep_was(70)
    app.send_task("research.sweep")

    with pytest.raises(Deaf, match="no sweep since"):
        listen_for_deafness()


def test_it_is_not_deaf_when_nothing_waits() -> None:
    the_last_sweep_was(70)

    listen_for_deafness()


def test_it_is_not_deaf_while_somebody_sweeps() -> None:
    the_last_sweep_was(5)
    app.send_task("research.sweep")

    listen_for_deafness()


def test_it_is_not_deaf_before_the_first_sweep() -> None:
    app.send_task("research.sweep")

    listen_for_deafness()


def test_it_does_not_judge_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    the_last_sweep_was(70)
    app.send_task("research.sweep")
    monkeypatch.setattr(app, "connection_for_read", lambda: Connection("redis://127.0.0.1:9/0"))

    listen_for_deafness()
