"""GETs for whoever makes them by the thousand: a third of aiohttp's CPU, a fiftieth of httpx's
(docs/decisions/0015).

HTTP is read by llhttp, through httptools, as uvicorn reads it; here its connections are kept. Only GET is
known, and answers that fit into memory. No redirect is followed, nothing is unpacked, no cookie is kept.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from portal.http import CONNECTIONS, KEEP_SECONDS, LONGEST_HEADER, USER_AGENT, ConnectError, ReadError, tls

PATH = re.compile(r"/[!-~]*", re.ASCII)
UNFIT = re.compile(r"[\r\n\0]")
LONGEST_HEAD = 4 * LONGEST_HEADER
"""Bytes of all headers of an answer."""


@dataclass(frozen=True, slots=True)
class Gotten:
    """An answer to a GET, whole. `headers` are by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Reader:
    """GETs from one upstream, over at most `connections`. Bound to the event loop that first uses it."""

    def __init__(self, base_url: str, connections: int = CONNECTIONS) -> None:
        url = urlsplit(base_url)
        self._tls = tls() if url.scheme == "https" else None
        self._host = url.hostname or ""
        self._port = url.port or (443 if self._tls else 80)
        self._prefix = url.path.rstrip("/")
        fixed = {
            "Host": url.netloc.rpartition("@")[2],
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
        }
        self._fixed = _lines(fixed)
        self._places = asyncio.Semaphore(connections)
        self._idle: list[_Line] = []

    async def get(self, path: str, headers: Mapping[str, str], *, at_most: int) -> Gotten:
        """The answer to `GET path`, of which `at_most` bytes are read; `path` is quoted already.

        Errors: HTTPError; ConnectError, which is one, when there was no connection; ValueError for a path
        or a header that cannot be sent. The caller bounds the time.
        """
        if not PATH.fullmatch(path):
            raise ValueError("not a path")
        head = f"GET {self._prefix}{path} HTTP/1.1\r\n{self._fixed}{_lines(headers)}\r\n"
        request = head.encode("ascii")
        async with self._places:
            while line := self._take():
                try:
                    return await self._ask(line, request, at_most)
                except _Unanswered:
                    continue  # the server closed it while it was idle
            return await self._ask(await self._connect(), request, at_most)

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if not line.is_closed and time.monotonic() - line.idle_since < KEEP_SECONDS:
                return line
            line.close()
        return None

    async def _connect(self) -> _Line:
        name = self._host if self._tls else None
        try:
            _, line = await asyncio.get_running_loop().create_connection(
                _Line, self._host, self._port, ssl=self._tls, server_hostname=name, happy_eyeballs_delay=0.25
            )
        except OSError as error:
            raise ConnectError(str(error)) from error
        return line

    async def _ask(self, line: _Line, request: bytes, at_most: int) -> Gotten:
        try:
            answer = await line.ask(request, at_most)
        except BaseException:  # cancelled, too: what comes over it next would be taken for another's
            line.close()
            raise
        if line.may_go_on:
            line.idle_since = time.monotonic()
            self._idle.append(line)
        else:
            line.close()
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise ReadError("it is compressed, though nobody asked for that")
        return answer


class _Unanswered(ReadError):
    """The connection was closed before a byte of the answer."""


class _Line(asyncio.Protocol):
    """One connection, over which one answer at a time is waited for."""

    def __init__(self) -> None:
        self.is_closed = False
        self.may_go_on = False
        self.idle_since = 0.0
        self._answer: asyncio.Future[Gotten] | None = None
        self._has_head = False

    def ask(self, request: bytes, at_most: int) -> asyncio.Future[Gotten]:
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = HttpResponseParser(self)
        self._at_most = at_most
        self._is_heard = self.may_go_on = False
        self.on_message_begin()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self.is_closed = True
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # nobody has asked
            return
        self._is_heard = True
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._fail(ReadError("it is no answer to a GET"))
        if too_long := self._too_long():
            self._fail(too_long)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        if error is None and self._has_head and not self._is_bounded():
            self._finish()
        elif self._answer is not None:
            kind = ReadError if self._is_heard else _Unanswered
            self._fail(kind("the connection was closed"))

    # What the parser tells

    def on_message_begin(self) -> None:
        """Before the answer there may be others, of the kind 100; behind it there must be nothing."""
        if self._answer is not None and self._answer.done():
            self.may_go_on = False
        self._has_head = False
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._has_head = self._parser.get_status_code() >= 200

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._has_head and self._answer is not None and not self._answer.done():
            self.may_go_on = self._parser.should_keep_alive()
            self._finish()

    def _is_bounded(self) -> bool:
        """Whether the answer says itself where it ends; else the connection's end is its own."""
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    def _too_long(self) -> ReadError | None:
        if len(self._body) > self._at_most:
            return ReadError(f"it is longer than {self._at_most} bytes")
        return ReadError("its headers are too long") if self._head_size > LONGEST_HEAD else None

    def _finish(self) -> None:
        if too_long := self._too_long():
            self._fail(too_long)
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(Gotten(self._parser.get_status_code(), self._headers, bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _lines(headers: Mapping[str, str]) -> str:
    if any(UNFIT.search(text) for pair in headers.items() for text in pair):
        raise ValueError("not a header")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
