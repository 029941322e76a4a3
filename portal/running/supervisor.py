"""Cluster mode on one machine: a web, a worker and a beat process, started again when they end.

The children end with the supervisor, however it ends. Containers and service managers do the
same for the single roles.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from portal.running.signals import stop_signals

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
STOP_SECONDS = 30.0
"""What the children get after SIGTERM: open streams 5 s, tasks 20 s, and some."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
STEADY_SECONDS = 60.0
"""A child that ran this long is started again without delay worth naming."""


class Child:
    def __init__(self, role: str, command: Sequence[str], sockets: Sequence[socket.socket]) -> None:
        self.role = role
        self.command = command
        self.sockets = sockets
        self.pause = 0.0
        self.start()

    def start(self) -> None:
        self.started = time.monotonic()
        self.start_again_at: float | None = None
        self.process = subprocess.Popen(self.command, pass_fds=[one.fileno() for one in self.sockets])

    def look(self) -> None:
        """Notice an end, and start again when the pause after it is over."""
        now = time.monotonic()
        if self.start_again_at is not None:
            if now >= self.start_again_at:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        steady = now - self.started > STEADY_SECONDS
        self.pause = FIRST_PAUSE if steady or not self.pause else min(self.pause * 2, LONGEST_PAUSE)
        self.start_again_at = now + self.pause
        log.error("the %s process ended with code %d; started again in %.1f s", self.role, code, self.pause)

    def tell(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()

    def wait(self, seconds: float) -> None:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            log.error("the %s process did not end in time and is killed", self.role)
            self.process.kill()
            code = self.process.wait()
        if code:
            log.warning("the %s process ended with code %d", self.role, code)


class Supervisor:
    """`commands` by role; `sockets` are bound here and handed to every child, so that a web process
    that is started again finds the connections that came meanwhile."""

    def __init__(self, commands: Mapping[str, Sequence[str]], sockets: Sequence[socket.socket] = ()) -> None:
        self.commands = commands
        self.sockets = sockets
        self.children: list[Child] = []
        self.stopping = threading.Event()

    def run(self, on_tick: Callable[[], None]) -> None:
        """Keep the children running until a signal; `on_tick` is called several times a second."""
        with stop_signals(self.stopping.set, before_force=self.kill):
            for role, command in self.commands.items():
                self.children.append(Child(role, command, self.sockets))
            while not self.stopping.wait(LOOK_SECONDS):
                for child in self.children:
                    child.look()
                on_tick()
            self.stop()

    def stop(self) -> None:
        for one in self.sockets:
            one.close()
        for child in self.children:
            child.tell()
        deadline = time.monotonic() + STOP_SECONDS
        for child in self.children:
            child.wait(max(0.0, deadline - time.monotonic()))

    def kill(self) -> None:
        for child in self.children:
            child.process.kill()
