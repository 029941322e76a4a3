"""The web server: uvicorn under our own signals, on a socket that we opened."""

from __future__ import annotations

import errno
import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from portal.live.ending import of_server
from portal.running.connection import Connection, Socket, raise_open_files
from portal.running.signals import stop_signals

GRACE_SECONDS = 5
"""What open requests and streams get after SIGTERM. They are cancelled then, which ends them in order."""
IDLE_SECONDS = 75
"""For which a connection is kept without a request: longer than its clients keep it, other portals (30) and
nginx (60) among them. One that is closed under a POST loses it, and nobody knows whether it arrived."""
BACKLOG = 2048
LARGEST_SOCKET_MESSAGE = 64 * 1024
ADVICE = {
    errno.EADDRINUSE: "; stop what uses it, or choose another port: bin/up --port 8001",
    errno.EACCES: "; ports below 1024 are the system's: choose another, as in bin/up --port 8001",
    errno.EADDRNOTAVAIL: "; HOST must be an address of this machine",
    socket.EAI_NONAME: "; HOST must be an address of this machine",
}


class CannotListen(Exception):
    """The address is taken, or not ours. One line for people."""


class Server(uvicorn.Server):
    """uvicorn repeats the signal that stopped it once it is done, and kills its caller so (STACK §2.2.3)."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is loaded stays: to walk it with each full collection holds every stream for 0.1 s.
        gc.freeze()
        self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        of_server.begin()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with stop_signals(self._stop):
            yield

    def _stop(self) -> None:
        self.should_exit = True


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket that nobody can connect to until a server listens. Errors: CannotListen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        advice = ADVICE.get(error.errno or 0, "")
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}{advice}") from None
    return listener


def serve(listener: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until told to stop; `on_ready` is called when requests are taken.

    There is no access log: it would show keys that stand in a URL.
    """
    raise_open_files()
    config = uvicorn.Config(
        "portal.asgi:application",
        http=Connection,
        ws=Socket,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=LARGEST_SOCKET_MESSAGE,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    Server(config, on_ready).run(sockets=[listener])
