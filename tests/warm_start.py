"""Our own programs, started as forks of a process that has loaded them already.

A start of Python, Django and all of the portal takes a second of CPU, which tests that start, kill and
start again pay hundreds of times. Within a test run `start` and `run` fork instead: the fork is a process
with a pid, a session, an environment and an exit code of its own, and it runs the same `manage.py` or
`-m sandbox` from the first line; only what that imports is there already. The settings it reads anew, from
its own environment.

Outside a test run, and on other systems than Linux, they are `subprocess`, as `start_cold` is always: for
what is to be seen started from its very command line.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
LARGEST_ORDER = 128 * 1024
NEWS = 16
"""Bytes of a number that is told: first the pid, at the end the exit code."""
LOADED = (
    *("portal.asgi", "portal.urls", "portal.management.commands.up", "portal.mcp.stdio", "sandbox.app"),
    *("proxy.tasks", "proxy.services.answering", "proxy.services.discovery", "proxy.upstream.plain"),
    *("proxy.upstream.curl", "research.tasks", "research.services.sweep", "research.services.lookout"),
    *("celery.worker.consumer", "celery.events.receiver", "kombu.transport.memory", "kombu.transport.redis"),
    *("rest_framework.views", "django.contrib.admin.views.main", "httpcore", "markdown", "psycopg"),
)
"""What a portal, its commands and a sandbox come to need sooner or later, with all that it imports."""
File = int | IO[Any]
"""One that is open; as a number, too."""


class Lost(Exception):
    """The process that forks has ended."""


class Nursery:
    """The process that forks. It ends when this one does, and is then a dead parent to what it has forked."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm_start", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid

    def order(self, words: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> None:
        """Errors: Lost."""
        order = json.dumps({"words": list(words), "environment": dict(environment)}).encode()
        try:
            socket.send_fds(self._orders, [order], files)
        except OSError as error:
            raise Lost(str(error)) from None

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


class Forks:
    """Whether this process has its programs forked; what does that is started when it is needed."""

    def __init__(self) -> None:
        self._allowed: ExitStack | None = None
        self._nursery: Nursery | None = None

    def allow(self, stack: ExitStack) -> None:
        """From now on, until the stack is closed."""
        if sys.platform == "linux":
            self._allowed = stack

    @property
    def nursery(self) -> Nursery | None:
        if self._nursery is None and self._allowed is not None:
            self._nursery = self._allowed.enter_context(contextlib.closing(Nursery()))
        return self._nursery


forks = Forks()
"""Of this process."""


class Fork:
    """As much of `subprocess.Popen` as tests use."""

    def __init__(
        self, nursery: Nursery, words: Sequence[str], environment: Mapping[str, str], files: Sequence[int]
    ) -> None:
        self.args = words
        self.returncode: int | None = None
        news, telling = os.pipe()
        self._news = os.fdopen(news, "rb", buffering=0)
        try:
            nursery.order(words, environment, [*files, telling])
        finally:
            os.close(telling)
        self.pid = self._next()

    def _next(self) -> int:
        told = self._news.read(NEWS)
        if not told:
            raise Lost(f"nobody knows what became of {self.args}")
        return int(told)

    def wait(self, timeout: float | None = None) -> int:
        """Errors: subprocess.TimeoutExpired."""
        if self.returncode is None:
            news = select.poll()
            news.register(self._news)
            if not news.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._next()
            self._news.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = Fork | subprocess.Popen[bytes]


def parent() -> int:
    """The pid of the parent of what is started here."""
    return forks.nursery.pid if forks.nursery else os.getpid()


def start(
    words: Sequence[str], environment: Mapping[str, str], *, stdin: File, stdout: File, stderr: File
) -> Process:
    """Python with these words, in the root and in a session of its own."""
    files = (stdin, stdout, stderr)
    if forks.nursery is None:
        return start_cold([sys.executable, *words], environment, *files)
    numbers = [file if isinstance(file, int) else file.fileno() for file in files]
    return Fork(forks.nursery, words, environment, numbers)


def start_cold(
    command: Sequence[str], environment: Mapping[str, str], stdin: File, stdout: File, stderr: File
) -> subprocess.Popen[bytes]:
    """The same for a whole command line."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def run(
    words: Sequence[str], environment: Mapping[str, str], *, timeout: float, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """To its end, with what it wrote. `input` is what a pipe holds, at most.

    Errors: subprocess.TimeoutExpired.
    """
    read, write = os.pipe()
    with os.fdopen(read, "rb") as given, TemporaryFile() as out, TemporaryFile() as err:
        with os.fdopen(write, "wb") as giving:
            giving.write(input.encode())
        process = start(words, environment, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(list(words), code, text_of(out), text_of(err))


def text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def main(orders: socket.socket) -> None:
    """Be the nursery; in a fork, run what was ordered."""
    load()
    words = fork_as_told(orders)
    if words is None:
        return
    sys.argv[:] = words[1:] if words[0] == "-m" else words
    sys.orig_argv[1:] = words
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


def load() -> None:
    """Import under settings that nobody uses, and forget those."""
    gc.disable()
    with TemporaryDirectory() as folder:
        os.environ |= {"SONDE_ENV_FILE": "", "DATA_DIR": folder}
        for name in LOADED:
            import_module(name)
    del os.environ["SONDE_ENV_FILE"], os.environ["DATA_DIR"]
    gc.collect()
    gc.freeze()
    gc.enable()


def forget_settings() -> None:
    """What `manage.py` finds when it starts."""
    from django.conf import settings  # noqa: PLC0415 -- a test that starts something need not have it
    from django.core.cache import caches  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415
    from django.utils.functional import empty  # noqa: PLC0415

    del sys.modules["portal.settings"], sys.modules["portal"].settings
    settings._wrapped = empty
    for handler in (connections, caches):
        vars(handler).clear()
        handler.__init__()  # type: ignore[misc]  # as if nobody had asked it anything


def fork_as_told(orders: socket.socket) -> list[str] | None:
    """Fork for each order; its words in the fork, None in the nursery when nobody can order any more."""
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker.fileno())
    telling: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            bury(telling)
        if orders in ready:
            order, files, _, _ = socket.recv_fds(orders, LARGEST_ORDER, 4)
            if not order:
                return None
            pid = os.fork()
            if not pid:
                return become(json.loads(order), files)
            tell(files[3], pid)
            telling[pid] = files[3]
            for file in files[:3]:
                os.close(file)


def bury(telling: dict[int, int]) -> None:
    """Tell of each fork that has ended."""
    while telling:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        news = telling.pop(pid)
        tell(news, os.waitstatus_to_exitcode(status))
        os.close(news)


def tell(news: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(news, str(number).ljust(NEWS).encode())


def become(order: Mapping[str, Any], files: Sequence[int]) -> list[str]:
    """Make this fork what the order says; its words."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for place, file in enumerate(files[:3]):
        os.dup2(file, place)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    set_by_imports = dict(os.environ)
    os.environ.clear()
    os.environ.update(set_by_imports | order["environment"])
    forget_settings()
    words: list[str] = order["words"]
    return words


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
