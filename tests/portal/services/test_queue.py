"""The doorbell: whoever rings waits for nothing, and a crowd is one ring."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from celery.signals import before_task_publish
from django.db import transaction

from portal.services import queue
from portal.services.queue import Bell


@contextmanager
def sending(note: Callable[..., None]) -> Iterator[None]:
    before_task_publish.connect(note, weak=False)
    yield
    before_task_publish.disconnect(note)


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    assert what()


def test_it_sends_one_message_for_all_that_ask_for_it_meanwhile() -> None:
    sent: Counter[str] = Counter()
    may_go = threading.Event()

    def note(sender: str, **signal: object) -> None:
        may_go.wait(20)
        sent[sender] += 1

    bell = Bell()
    with sending(note):
        began = time.monotonic()
        for _ in range(500):
            bell.ring("test.one")
        bell.ring("test.other")
        assert time.monotonic() - began < 1, "whoever rings waits for no broker"
        may_go.set()
        wait_for(lambda: sent["test.other"])
    assert sent["test.other"] == 1
    assert sent["test.one"] <= 2


def test_it_survives_a_broker_that_fails_in_a_way_of_its_own() -> None:
    calls: list[str] = []

    def note(sender: str, **signal: object) -> None:
        calls.append(sender)
        if len(calls) == 1:
            raise RuntimeError("OOM command not allowed when used memory > 'maxmemory'")

    bell = Bell()
    with sending(note):
        bell.ring("test.full")
        wait_for(lambda: len(calls) == 1)
        bell.ring("test.later")
        wait_for(lambda: "test.later" in calls)


@pytest.mark.django_db(transaction=True)
def test_it_rings_for_what_was_committed_and_not_for_what_was_rolled_back() -> None:
    sent: Counter[str] = Counter()

    def note(sender: str, **signal: object) -> None:
        sent[sender] += 1

    def start_and_fail() -> None:
        with transaction.atomic():
            queue.ring_after_commit("test.rolled_back")
            raise ValueError("no")

    with sending(note):
        with pytest.raises(ValueError, match="no"):
            start_and_fail()
        with transaction.atomic():
            queue.ring_after_commit("test.committed")
            assert not sent["test.committed"]
        wait_for(lambda: sent["test.committed"])
    assert not sent["test.rolled_back"]
