"""Parts: threads that run until they are stopped and are started anew when they end earlier."""

from __future__ import annotations

import threading
import time

import pytest
from celery import Celery

from portal.running import parts
from portal.running.parts import Beat, Part


class Counting(Part):
    """Ends by itself `ends` times, by an error every second time, then runs until it is stopped."""

    name = "counting"

    def __init__(self, ends: int) -> None:
        super().__init__()
        self.ends = ends
        self.runs = 0
        self.told = threading.Event()

    def run(self) -> None:
        self.runs += 1
        if self.runs <= self.ends:
            if self.runs % 2:
                raise OSError("gone")
            return
        self.ready.set()
        self.told.wait(30)

    def interrupt(self) -> None:
        self.told.set()


class Stubborn(Part):
    name = "stubborn"

    def run(self) -> None:
        self.ready.set()
        time.sleep(1)

    def interrupt(self) -> None:
        """It does not listen."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PAUSES", (0.01,))


def test_it_starts_a_part_anew_that_ended_by_itself() -> None:
    part = Counting(ends=3)
    part.start()

    assert part.wait_until_ready()
    assert part.runs == 4
    assert part.stop()


def test_it_does_not_start_a_part_anew_that_was_stopped() -> None:
    part = Counting(ends=0)
    part.start()
    part.wait_until_ready()

    assert part.stop()
    assert part.runs == 1


def test_it_stops_waiting_for_a_part_that_does_not_end() -> None:
    part = Stubborn()
    part.start()
    part.wait_until_ready()

    assert part.stop(seconds=0.05) is False


def test_it_has_nothing_to_stop_before_the_start() -> None:
    assert Counting(ends=0).stop()


def test_it_ends_beat_without_waiting_for_its_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "app", Celery("quiet", broker="memory://", set_as_current=False))
    monkeypatch.setattr(parts, "LONGEST_TICK", 60)
    beat = Beat()
    beat.start()
    beat.wait_until_ready()

    assert beat.stop(seconds=5)
