"""A server on a socket, which says what it is told to and notices when its client leaves.

The sandbox cannot notice that before it has begun to answer; this can. With a certificate it
speaks TLS and keeps what each client's first message (its ClientHello) looked like.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from types import TracebackType
from typing import Self

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"


class SocketServer:
    """Answers each connection with `answer` and then holds it until the client leaves, or hangs up."""

    def __init__(
        self, answer: bytes = b"", tls: ssl.SSLContext | None = None, *, hangs_up: bool = False
    ) -> None:
        self.answer = answer
        self.hangs_up = hangs_up
        self.requests: list[bytes] = []
        self.hellos: list[bytes] = []
        self.sent = 0
        self.left = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"{'https://localhost' if self._tls else 'http://127.0.0.1'}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def was_left(self, seconds: float = 2.0) -> bool:
        """Whether the client closed its connection within that time (issue 3: two seconds)."""
        return self.left.wait(seconds)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        try:
            if self._tls is not None:
                self.hellos.append(_first_record(connection))
                connection = self._tls.wrap_socket(connection, server_side=True)
            self.requests.append(_request(connection))
            for start in range(0, len(self.answer), 65536):
                connection.sendall(self.answer[start : start + 65536])
                self.sent = start + 65536
            while not self.hangs_up and connection.recv(65536):
                pass
        except (OSError, ssl.SSLError):
            pass
        finally:
            self.left.set()
            connection.close()


def _request(connection: socket.socket) -> bytes:
    """Head and body of one request."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536) or b"\r\n\r\n"
    head = received.partition(b"\r\n\r\n")[0]
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    while len(received) < len(head) + 4 + int(length[1] if length else 0):
        received += connection.recv(65536)
    return received


def _first_record(connection: socket.socket) -> bytes:
    """The client's first TLS record, left in the socket for the handshake."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        seen = connection.recv(16384, socket.MSG_PEEK)
        if len(seen) >= 5 and len(seen) >= 5 + int.from_bytes(seen[3:5], "big"):
            return seen
        time.sleep(0.01)
    raise OSError("no ClientHello came")
