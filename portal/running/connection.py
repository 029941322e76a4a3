"""One client's connection: uvicorn's, with an end to its patience.

uvicorn waits for a request's head for as long as the client likes, keeps however much of it comes,
stays connected to whoever was answered before their body was whole, and waits for ever for a client to
take the last of its answer. Each such connection costs a descriptor that the database and the worker of
this process need too.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEAD_SECONDS = 20.0
"""For a request's head to arrive whole. Browsers open connections ahead of their use."""
LARGEST_HEAD = 32 * 1024
"""Bytes of request line and headers, and of one read more."""
HEADER_OVERHEAD = 128
"""Bytes that a header takes beside its own: seven thousand short ones take 700 KiB."""
MOST_AHEAD = 16
"""Requests that a client may send ahead of their answers. uvicorn keeps any number of them: a read of
256 KiB can hold fifteen thousand, and keeping those takes 35 MiB."""
LINGER_SECONDS = 5.0
"""For a client to notice that it was answered before its body was whole."""
READER_SECONDS = 50.0
"""For a client to take something of its answer. Less than event streams wait (`portal.api.streaming`): they
find that their client has left, and end as they always do then."""
LEAST_TAKEN = 64 * 1024
"""Bytes that are something, of those that no longer fit into the system's buffers; or all of them."""
OWN_FILES = 256
"""Descriptors that no client gets: databases, upstreams, logs."""
MOST_CONNECTIONS = 10_000
"""However many files there may be: each that a stranger opens may take 50 KiB."""
ENOUGH_FILES = (65_536, 10_240)
"""Descriptors to ask for, one after the other: macOS refuses more than the second."""
NOTHING_MORE = b"content-length: 0\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + NOTHING_MORE
NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\n" + NOTHING_MORE


class TooMuchHead(Exception):
    """A head of too many lines, or too much of heads ahead of their answers."""


class TooManyAhead(Exception):
    """A client does not wait for its answers."""


class Connection(HttpToolsProtocol):
    """Closed when a head takes too long or grows too large, and after an answer to half a request; cut off
    when its client takes nothing of an answer."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.reads_head = True
        self.heads = 0
        """How many were read whole."""
        self.head_size = 0
        self.lines_size = 0
        """Bytes that the headers of this head take, and those of all that wait for their answers."""
        self.head_timer: TimerHandle | None = None
        self.linger_timer: TimerHandle | None = None
        self.reader_timer: TimerHandle | None = None
        self.untaken = 0
        """Bytes that waited for the client when that timer began."""
        self.under_way: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn tells the last request only: the one under way would write to nobody, and say so in
        fifty lines."""
        self._stop_timers()
        self._stop_reader_timer()
        self.pipeline.clear()
        if self.under_way is not None and not self.under_way.response_complete:
            self.under_way.disconnected = True
            self.under_way.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.under_way = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        was_within = self.heads if self.reads_head else None
        super().data_received(data)
        if not self.reads_head or self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if was_within == self.heads:
            self.head_size += len(data)
        if self.head_size > LARGEST_HEAD:
            self._refuse_head()
        elif self.head_timer is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self.pipeline:
            self.lines_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.lines_size += len(name) + len(value) + HEADER_OVERHEAD
        if self.lines_size > LARGEST_HEAD:
            raise TooMuchHead  # to the parser, which stops
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            raise TooManyAhead  # the same
        self.reads_head = False
        self.heads += 1
        self._stop_timers()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.reads_head, self.head_size = True, 0
        self._stop_timers()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.under_way is not None:
            self.under_way.body = bytearray()  # what nobody has read, and nobody will
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_reader()
        elif not self.reads_head and self.linger_timer is None:
            self.linger_timer = self.loop.call_later(LINGER_SECONDS, self._end_if_idle)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():  # else the last of it may still stay
            self._stop_reader_timer()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def send_400_response(self, msg: str) -> None:
        """To whatever stopped the parser."""
        if self.lines_size > LARGEST_HEAD:
            self._refuse_head()
        else:
            super().send_400_response(msg)
            self._expect_reader()

    def _refuse_head(self) -> None:
        self.transport.write(TOO_LARGE)
        self._close()

    def _close(self) -> None:
        """As soon as the client has taken all."""
        self.transport.close()
        self._expect_reader()

    def _expect_reader(self) -> None:
        if self.reader_timer is None:
            self.untaken = self.transport.get_write_buffer_size()
            self.reader_timer = self.loop.call_later(READER_SECONDS, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self.reader_timer = None
        if self.transport.get_protocol() is not self:
            return  # a page's socket has it now
        if self.untaken - self.transport.get_write_buffer_size() < LEAST_TAKEN:
            cut_off(self.transport)
        else:
            self._expect_reader()

    def _stop_reader_timer(self) -> None:
        if self.reader_timer is not None:
            self.reader_timer.cancel()
            self.reader_timer = None

    def _expect_head(self) -> None:
        self.head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up_on_head)

    def _give_up_on_head(self) -> None:
        """The next head may wait as long as the answer to the one before is under way."""
        if self._is_busy():
            self._expect_head()
        else:
            self._close()

    def _end_if_idle(self) -> None:
        self.linger_timer = None
        if not self._is_busy():
            self._close()

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _stop_timers(self) -> None:
        for timer in (self.head_timer, self.linger_timer):
            if timer is not None:
                timer.cancel()
        self.head_timer = self.linger_timer = None


class Socket(WebSocketsSansIOProtocol):
    """A page's socket, which `Connection` hands over with its whole handshake. What is none gets no
    answer from uvicorn (a cookie of nine kilobytes, a body), nor does one that the portal leaves
    unanswered: both would stay for ever."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self.patience.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            self.transport.write(NO_HANDSHAKE)
            self.transport.close()

    def keepalive_timeout(self) -> None:
        """A page that answers no ping takes the rest of what it was sent no more than it took the ping."""
        super().keepalive_timeout()
        cut_off(self.transport)

    def _give_up(self) -> None:
        if not self.handshake_complete:
            self.transport.close()


def cut_off(transport: asyncio.Transport) -> None:
    """A reset: what a client does not take stays neither with us nor with the system, which would go on
    offering it for minutes."""
    if (open_socket := transport.get_extra_info("socket")) is not None:
        open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def raise_open_files() -> None:
    """As many descriptors as the system allows, within reason: 1,024, a usual default, are soon taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in ENOUGH_FILES:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # macOS calls its limit infinite and refuses more than it has.
        with contextlib.suppress(OSError, ValueError):
            if soft != resource.RLIM_INFINITY and soft < most:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return


def most_connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft - OWN_FILES, soft // 2))
