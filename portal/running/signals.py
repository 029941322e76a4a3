"""How a process is told to end: once to finish what it does, twice to end at once."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PR_SET_PDEATHSIG = 1
LASTS = b"sonde: finishing what is under way; Ctrl+C again ends it at once, and nothing is lost\n"
"""Said when the end takes long, by the process that a person can press Ctrl+C at."""
LONG_SECONDS = 2


def nothing() -> None:
    """Nothing is to be done."""


@contextmanager
def stop_signals(on_first: Callable[[], None], before_force: Callable[[], None] = nothing) -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM call `on_first`; a second one ends the process.

    Nothing is lost by the second: runs survive the death of any process (SPEC 3.1). What was
    ignored before stays ignored. Needs the main thread.
    """
    told = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told:
            before_force()
            os._exit(128 + number)
        told = True
        if signal.SIGINT in heeded:
            signal.alarm(LONG_SECONDS)
        on_first()

    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heeded}
    # An alarm, not a timer: a handler may meet any lock that starting a thread needs.
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _say_that_it_lasts)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_that_it_lasts(number: int, frame: FrameType | None) -> None:
    os.write(2, LASTS)


def leave_interrupts_to_the_parent() -> None:
    """Ctrl+C reaches every process of a terminal: a child whose parent tells it too would be told twice."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_with(parent: int) -> None:
    """Have this process told to end when `parent`, which started it, dies in whatever way."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signal.SIGTERM)
        return
    threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
