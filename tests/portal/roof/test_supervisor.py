"""The supervisor of a cluster's processes on one machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.running import supervisor
from portal.running.supervisor import Supervisor

# Says that it started, then does as its name says.
CHILD = """
import os, signal, sys, time
name, folder = sys.argv[1:]
open(os.path.join(folder, f"{name}-{os.getpid()}"), "w").close()
if name == "dies":
    sys.exit(3)
if name == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(os.path.join(folder, f"ready-{os.getpid()}"), "w").close()
time.sleep(30)
"""


def supervise(folder: Path, *names: str, until: Callable[[], bool]) -> None:
    """Run a child of each name until the condition holds, then be told to stop."""
    found = Supervisor({name: [sys.executable, "-c", CHILD, name, str(folder)] for name in names})
    give_up = threading.Timer(20, os.kill, (os.getpid(), signal.SIGTERM))
    give_up.start()
    found.run(lambda: os.kill(os.getpid(), signal.SIGTERM) if until() else None)
    give_up.cancel()


def started(folder: Path, name: str) -> list[int]:
    return [int(path.name.partition("-")[2]) for path in folder.glob(f"{name}-*")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.05)


def test_it_runs_one_of_each_and_ends_them_all(tmp_path: Path) -> None:
    supervise(
        tmp_path,
        "web",
        "worker",
        until=lambda: bool(started(tmp_path, "web") and started(tmp_path, "worker")),
    )

    assert [is_alive(pid) for name in ("web", "worker") for pid in started(tmp_path, name)] == [False, False]


def test_it_starts_a_child_again_that_ended(tmp_path: Path) -> None:
    supervise(tmp_path, "dies", until=lambda: len(started(tmp_path, "dies")) >= 3)

    assert len(started(tmp_path, "dies")) >= 3


def test_it_waits_longer_after_each_end(tmp_path: Path) -> None:
    ends = time.monotonic() + 1.0
    supervise(tmp_path, "dies", until=lambda: time.monotonic() > ends)

    assert len(started(tmp_path, "dies")) <= 5


def test_it_kills_a_child_that_does_not_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.2)

    supervise(tmp_path, "deaf", until=lambda: bool(started(tmp_path, "ready")))

    assert [is_alive(pid) for pid in started(tmp_path, "deaf")] == [False]
