"""curl with a browser's fingerprint, one answer at a time on curl_cffi's multi handle.

curl_cffi's own session is left aside: it tells the head of an answer only with the first byte of
its body, cannot end a transfer whose caller has left, and queues without a bound for a reader that
is slow.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping

import certifi
from curl_cffi import AsyncCurl, Curl, CurlECode, CurlError, CurlOpt
from curl_cffi.curl import CURL_WRITEFUNC_PAUSE, CURLPAUSE_CONT
from curl_cffi.requests.impersonate import resolve_latest_browser_type

from proxy.upstream.exchange import Lost, Reply, Request, Unreachable

CONNECT_SECONDS = 10
MOST_WAITING = 1024 * 1024
"""Bytes that wait for a slow reader before curl stops reading."""
MOST_IDLE = 64
"""Handles that are kept for the next requests."""
_NOTHING_SENT = frozenset(
    {
        CurlECode.COULDNT_RESOLVE_HOST,
        CurlECode.COULDNT_CONNECT,
        CurlECode.OPERATION_TIMEDOUT,  # only connecting has a limit here
        CurlECode.SSL_CONNECT_ERROR,
        CurlECode.PEER_FAILED_VERIFICATION,
        CurlECode.URL_MALFORMAT,
    }
)


class UnknownProfile(ValueError):
    """PPLX_IMPERSONATE names no browser that curl knows. One line for people."""


def check_profile(profile: str) -> None:
    """Raises UnknownProfile."""
    if Curl().impersonate(_target(profile)) != 0:
        raise UnknownProfile(f"PPLX_IMPERSONATE: curl knows no browser called {profile!r}")


def _target(profile: str) -> str:
    """`chrome` is the newest one that curl knows."""
    return str(resolve_latest_browser_type(profile))  # type: ignore[no-untyped-call]  # has none


class CurlReply:
    """One transfer. curl calls `_take_header` and `_take_body` on the loop's own thread."""

    def __init__(self, client: CurlClient, handle: Curl, method: str) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.set_cookies: tuple[str, ...] = ()
        self._client = client
        self._method = method
        self._handle: Curl | None = handle
        self._head: list[bytes] = []
        self._headed = asyncio.Event()
        self._body: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._moved = asyncio.Event()
        self._ended = False
        self._error: CurlError | None = None
        handle.setopt(CurlOpt.HEADERFUNCTION, self._take_header)
        handle.setopt(CurlOpt.WRITEFUNCTION, self._take_body)

    async def head(self, transfer: asyncio.Future[None]) -> None:
        """Wait until status and headers are there; close when that fails or is given up."""
        transfer.add_done_callback(self._end)
        try:
            await self._headed.wait()
            if not self.status:
                raise _told(self._error)
        except BaseException:
            await self.close()
            raise

    @property
    def is_over(self) -> bool:
        return self._ended and not self._body

    async def read(self) -> bytes:
        while not self._body:
            if self._error is not None:
                raise _told(self._error)
            if self._ended:
                return b""
            self._moved.clear()
            await self._moved.wait()
        chunk = b"".join(self._body)
        self._body.clear()
        self._size = 0
        self._go_on()
        return chunk

    def break_off(self) -> None:
        self._error = CurlError("", CurlECode.ABORTED_BY_CALLBACK)
        self._moved.set()

    async def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._client.give_back(handle, self._method)

    def _take_header(self, line: bytes) -> int:
        if self._headed.is_set():
            return len(line)  # a trailer
        text = line.strip()
        if text:
            self._head.append(text)
        elif self._head:
            self._read_head()
        return len(line)

    def _read_head(self) -> None:
        first, *lines = self._head
        self._head = []
        code = first.split(None, 2)[1]
        if code.startswith(b"1"):
            return  # an interim answer: the real one follows
        pairs = [
            (name.decode("latin-1").lower(), value.strip().decode("latin-1"))
            for name, _, value in (line.partition(b":") for line in lines)
        ]
        self.status = int(code)
        self.headers = {name: value for name, value in pairs if name != "set-cookie"}
        self.set_cookies = tuple(value for name, value in pairs if name == "set-cookie")
        self._headed.set()

    def _take_body(self, data: bytes) -> int:
        if self._size > MOST_WAITING:
            self._paused = True
            return CURL_WRITEFUNC_PAUSE  # curl keeps these bytes and gives them again
        self._body.append(data)
        self._size += len(data)
        self._moved.set()
        return len(data)

    def _go_on(self) -> None:
        if self._paused and self._handle is not None:
            self._paused = False
            self._handle.pause(CURLPAUSE_CONT)

    def _end(self, transfer: asyncio.Future[None]) -> None:
        self._ended = True
        if not transfer.cancelled():
            error = transfer.exception()
            self._error = error if isinstance(error, CurlError) else None
        self._headed.set()
        self._moved.set()


class CurlClient:
    """Transfers of one event loop; it keeps connections, TLS sessions and handles for the next ones."""

    def __init__(self, profile: str, ca_file: str = "") -> None:
        check_profile(profile)
        self._profile = _target(profile)
        self._ca_file = ca_file or certifi.where()
        self._multi = AsyncCurl()
        self._idle: defaultdict[str, list[Curl]] = defaultdict(list)
        """By their method: what is the same for all requests of one is set once for each handle."""
        self._closed = False

    async def open(self, request: Request) -> Reply:
        idle = self._idle[request.method]
        handle = idle.pop() if idle else self._handle_for(request.method)
        try:
            _prepare(handle, request)
            reply = CurlReply(self, handle, request.method)
            transfer = self._multi.add_handle(handle)
        except BaseException:
            handle.close()
            raise
        await reply.head(transfer)
        return reply

    def give_back(self, handle: Curl, method: str) -> None:
        """End the transfer, if it still runs, and keep the handle for the next one of its method."""
        if self._closed:
            handle.close()
            return
        self._multi.remove_handle(handle)
        handle.clean_handles_and_buffers()
        if len(self._idle[method]) < MOST_IDLE:
            self._idle[method].append(handle)
        else:
            handle.close()

    async def close(self) -> None:
        self._closed = True
        await self._multi.close()  # type: ignore[no-untyped-call]  # has none
        for handles in self._idle.values():
            for handle in handles:
                handle.close()

    def _handle_for(self, method: str) -> Curl:
        handle = Curl()
        handle.impersonate(self._profile)
        handle.setopt(CurlOpt.CAINFO, self._ca_file)
        handle.setopt(CurlOpt.PROXY, b"")  # the environment's proxies are not ours
        handle.setopt(CurlOpt.FOLLOWLOCATION, 0)
        handle.setopt(CurlOpt.CONNECTTIMEOUT, CONNECT_SECONDS)
        handle.setopt(CurlOpt.NOSIGNAL, 1)
        if method != "GET":
            handle.setopt(CurlOpt.POST, 1)
            handle.setopt(CurlOpt.CUSTOMREQUEST, method.encode())
        return handle


def _prepare(handle: Curl, request: Request) -> None:
    handle.setopt(CurlOpt.URL, request.url.encode())
    if request.method != "GET":
        handle.setopt(CurlOpt.POSTFIELDSIZE, len(request.body))
        handle.setopt(CurlOpt.POSTFIELDS, request.body)
    headers = {**request.headers, "expect": ""}
    lines = [f"{name}: {value}" if value else f"{name}:" for name, value in headers.items()]
    handle.setopt(CurlOpt.HTTPHEADER, [line.encode() for line in lines])


def _told(error: CurlError | None) -> Unreachable | Lost:
    """Without curl's own words, which hold the address."""
    if error is None:
        return Lost("closed")
    kind = Unreachable if error.code in _NOTHING_SENT else Lost
    return kind(f"curl {int(error.code)}")
