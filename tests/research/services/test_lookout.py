"""Pollers at the lookout: one waits for what is due, the others take the next batch while he looks."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from research.models.runs import Run
from research.protocol.outcome import Running
from research.protocol.states import State
from research.services import lookout
from research.services.lookout import PAUSE, SOON, Lookout
from tests.research.people import ask, somebody
from tests.research.services.test_watch import running, watching


def due_in(seconds: float) -> None:
    Run.objects.update(next_run_at=timezone.now() + timedelta(seconds=seconds))


@pytest.mark.django_db
def test_it_takes_a_run_when_it_is_due_and_not_before() -> None:
    running(1)
    due_in(0.3)
    watcher, began = watching(lambda asked: Running()), time.monotonic()
    assert Lookout().take(watcher)
    assert time.monotonic() - began >= 0.29
    assert Run.objects.exclude(lease_token=None).count() == 1


@pytest.mark.django_db
def test_it_asks_again_before_it_takes_what_is_due_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else may have become due meanwhile, and the worker may be told to stop."""
    monkeypatch.setattr(lookout, "NAP", 0.05)
    running(1)
    due_in(4)
    began = time.monotonic()
    assert Lookout().take(watching(lambda asked: Running()))
    assert time.monotonic() - began < 2
    assert not Run.objects.exclude(lease_token=None).exists()


@pytest.mark.django_db
def test_it_leaves_to_the_sweep_what_is_due_late(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    running(1)
    due_in(SOON.total_seconds() + 5)
    with django_assert_num_queries(1):
        assert not Lookout().take(watching(lambda asked: Running()))


@pytest.mark.django_db
def test_it_rests_after_less_than_a_batch() -> None:
    running(1)
    due_in(0)
    place, watcher, began = Lookout(), watching(lambda asked: Running()), time.monotonic()
    assert place.take(watcher)
    watcher.look()
    due_in(0)
    assert place.take(watcher)
    assert time.monotonic() - began >= PAUSE


@pytest.mark.django_db(transaction=True)
def test_it_lets_the_next_one_take_while_the_first_one_looks() -> None:
    ask(somebody())
    Run.objects.update(state=State.RUNNING, backend="agent", upstream_id="resp_u")
    due_in(0)
    place, taken = Lookout(), threading.Event()

    def first() -> None:
        place.take(watching(lambda asked: Running()))
        taken.set()
        connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    assert taken.wait(10)
    began = time.monotonic()
    assert not place.take(watching(lambda asked: Running())), "nothing else is due"
    assert time.monotonic() - began < PAUSE + 1
    thread.join()
