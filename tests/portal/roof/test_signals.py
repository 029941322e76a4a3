"""Told once, a process finishes; told twice, it ends; without its parent, it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.environment import ROOT

pytestmark = pytest.mark.slow

WAITS = """
import os, time
from portal.running.signals import stop_signals
# Not print: the signal may come while the main program is still inside its own.
with stop_signals(lambda: os.write(1, b"told\\n")):
    print("ready", flush=True)
    time.sleep(30)
"""
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
time.sleep(30)
"""
CHILD = """
import os, signal, sys, time
from portal.running.signals import end_with
def told(*_):
    os.write(1, b"told\\n")
    sys.exit()
signal.signal(signal.SIGTERM, told)
end_with(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(30)
"""


@contextmanager
def running(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said "ready"; killed at the end, if it still runs."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert next_line(process) == "ready"
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_tells_of_the_first_signal_and_ends_at_the_second() -> None:
    with running(WAITS) as process:
        process.send_signal(signal.SIGTERM)
        assert next_line(process) == "told"
        assert process.poll() is None

        process.send_signal(signal.SIGINT)

        assert process.wait(10) == 128 + signal.SIGINT


def test_it_says_what_it_waits_for_when_the_end_takes_long() -> None:
    with running(WAITS) as process:
        process.send_signal(signal.SIGTERM)

        assert next_line(process) == "told"
        assert next_line(process).startswith("sonde: finishing what is under way; Ctrl+C again")


def test_it_leaves_that_to_the_parent_whom_a_person_interrupts() -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with running(ignoring + WAITS.replace("time.sleep(30)", "time.sleep(3)")) as process:
        process.send_signal(signal.SIGTERM)

        assert next_line(process) == "told"
        assert next_line(process) == ""


def test_it_tells_a_child_whose_parent_was_killed() -> None:
    with running(PARENT, CHILD) as parent:
        parent.kill()

        assert next_line(parent) == "told"


def test_it_tells_a_child_whose_parent_died_before_it_asked() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert gone.pid != os.getpid()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(gone.pid)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert next_line(child) == "told"
