"""Embedded mode: web server, worker, beat and, without a credential, the sandbox in one process.

The in-memory broker and channel layer reach no other process, so a data folder serves one
process at a time: it is locked for as long as the process lives (STACK §2.2.7).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from django.conf import settings

from portal.engine import Beat, Part, Worker
from portal.services import network

LOCK_FILE = "sonde.lock"
WORKER_THREADS = 4


class FolderInUse(Exception):
    """Another process has the data folder. One line for people."""


class FolderLock:
    """An advisory lock that the system frees when the process ends, however it ends."""

    def __init__(self) -> None:
        self.handle: int | None = None

    def take(self, folder: Path) -> None:
        """Lock `folder` for this process, once; FolderInUse names the process that has it."""
        if self.handle is not None:
            return
        handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise FolderInUse(
                f"{folder} is in use by another Sonde (process {owner}): stop it, or choose another DATA_DIR"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self.handle = handle

    def free(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


# Of the process: `up` takes it before it migrates, the server keeps it.
folder_lock = FolderLock()


class Embedded:
    """The parts that cluster mode runs as processes. Start and stop block: keep them off the event loop."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def start(self) -> None:
        """Take the folder and start the parts; FolderInUse when it is taken."""
        folder_lock.take(settings.DATA_DIR)
        self.parts = [Worker(WORKER_THREADS), Beat()]
        for part in self.parts:
            part.start()
            part.wait_until_ready()

    def stop(self) -> None:
        """Stop beat, let the worker finish its tasks, close the clients."""
        for part in reversed(self.parts):
            part.stop()
        network.close()
        folder_lock.free()
