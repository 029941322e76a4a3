"""Embedded mode: web server, worker, beat and, without a credential, the sandbox in one process.

The in-memory broker and channel layer reach no other process, so a data folder serves one
process at a time: it is locked for as long as the process lives (STACK §2.2.7).
"""

from __future__ import annotations

import json
import os
import socket

import uvicorn
from django.conf import settings
from django.db import connection

from portal.data_folder import FolderLock
from portal.http import HTTPError, async_client
from portal.running import preparation
from portal.running.parts import Beat, Part, Worker
from portal.services import network, upstreams
from proxy.services import keepalive, leases, sessions
from research.services import moves

WORKER_THREADS = 8
SANDBOX_HOST = "127.0.0.1"
STANDBY_SECONDS = 1.0


# Of the process: `up` takes it before it migrates, the server keeps it.
folder_lock = FolderLock()


class PortTaken(Exception):
    """A port that was asked for is in use. One line for people."""


class Sandbox(Part):
    name = "sandbox"

    def __init__(self) -> None:
        # Not at the top: a portal with a credential has no use for it, and it is not small.
        from sandbox.app import KEEP_SECONDS, build_app  # noqa: PLC0415

        super().__init__()
        self.listener: socket.socket | None = None
        seconds = settings.SANDBOX_SECONDS or None
        self.app = build_app(settings.DATA_DIR / "sandbox.sqlite3", seconds=seconds)
        self.keep_seconds = KEEP_SECONDS
        self.server: uvicorn.Server | None = None

    def start(self) -> None:
        """Errors: PortTaken."""
        self.listener = _listen()
        if self.listener is not None:
            _remember(self.listener.getsockname()[1])
        super().start()

    def run(self) -> None:
        while (listener := self.listener or _listen()) is None:
            self.ready.set()
            if self.stopping.wait(STANDBY_SECONDS):
                return
        self.listener = None
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=self.keep_seconds,
        )
        self.server = uvicorn.Server(config)
        self.ready.set()
        self.server.run(sockets=[listener])

    def interrupt(self) -> None:
        if self.server is not None:
            self.server.should_exit = True


def _listen() -> socket.socket | None:
    """On the port that was chosen or taken last; on any when the latter is gone.

    None while another web process of this cluster and machine serves the sandbox: the next one
    takes over when it ends.
    """
    port = upstreams.sandbox_port()
    try:
        return socket.create_server((SANDBOX_HOST, port), backlog=2048)
    except OSError as error:
        if settings.CLUSTER and network.call(_is_sandbox(port)):
            return None
        if settings.SANDBOX_PORT or settings.CLUSTER:
            raise PortTaken(f"SANDBOX_PORT: cannot listen on port {port}: {error.strerror}") from None
        return socket.create_server((SANDBOX_HOST, 0), backlog=2048)


async def _is_sandbox(port: int) -> bool:
    async with async_client(f"http://{SANDBOX_HOST}:{port}", timeout=STANDBY_SECONDS) as client:
        try:
            return (await client.get("/_sandbox")).is_success
        except HTTPError:
            return False


def _remember(port: int) -> None:
    """Replace the note whole, so that no reader sees half of it."""
    note = upstreams.sandbox_note()
    draft = note.with_suffix(".new")
    draft.write_text(json.dumps({"port": port}), encoding="utf-8")
    os.replace(draft, note)


class Embedded:
    """What runs beside the web server in this process. Start and stop block: keep them off the event loop.

    In cluster mode that is nothing but the sandbox, when the portal is told to use one.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def start(self) -> None:
        """Take the folder and start the parts. Errors: FolderInUse, NotReady, PortTaken."""
        if not settings.CLUSTER:
            folder_lock.take(settings.DATA_DIR)
        preparation.check()
        if upstreams.serves_sandbox():
            self._start(Sandbox())
        sessions.ensure_sandbox_account()
        keepalive.check_all_soon()
        if not settings.CLUSTER:
            # This process has the folder to itself: leases in it were left by one that died.
            moves.release_all_leases()
            leases.end_all_leases()
            self._start(Worker(WORKER_THREADS))
            self._start(Beat())
        # The thread that starts the server comes here once and never again.
        connection.close()

    def stop(self) -> None:
        """Stop beat, let the worker finish its tasks, close the clients."""
        while self.parts:
            self.parts.pop().stop()
        network.close()
        folder_lock.free()

    def _start(self, part: Part) -> None:
        part.start()
        self.parts.append(part)
        part.wait_until_ready()
