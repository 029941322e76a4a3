"""HTTP clients for answers that are read as they come: the only module that imports aiohttp.

Apart from `portal.http`, because aiohttp takes a tenth of a portal's start: it is loaded with the first
stream. Whoever imports this does so where it is needed first.
"""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from portal.http import KEEP_SECONDS, LONGEST_HEADER, SECONDS, USER_AGENT, Guard, tls

StreamSession = aiohttp.ClientSession
StreamResponse = aiohttp.ClientResponse
StreamError = aiohttp.ClientError
StreamConnectFailed = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
"""Errors of `stream_session` after which nothing was sent."""


def stream_session(connections: int, connect_seconds: float = SECONDS) -> aiohttp.ClientSession:
    """For answers that are read as they come, of the running loop; but for connecting, the caller bounds
    the time. It does not tell for sure whether a request had left when its connection broke
    (docs/decisions/0015)."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_SECONDS, ssl=tls()),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": USER_AGENT},
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds),
        requote_redirect_url=False,
        trust_env=False,
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )


class _GuardedResolver(AbstractResolver):
    """What it gives is what is connected to: nobody asks for the name a second time."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._guard.resolve(host)
        self._guard.check(addresses)
        return [_resolved(host, address, self._guard.port or port) for address in dict.fromkeys(addresses)]

    async def close(self) -> None: ...


def _resolved(host: str, address: str, port: int) -> ResolveResult:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
        "proto": 0,
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }


def guarded_session(guard: Guard) -> aiohttp.ClientSession:
    """For addresses that users give: each one is looked at when it is connected to, be it a name's or
    written out. No cookies, no redirects, nothing unpacked; the caller bounds time and size."""

    def connect(address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, (host, *_) = address
        guard.check([host])
        return socket.socket(family, kind, protocol)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=_GuardedResolver(guard),
            use_dns_cache=False,
            ssl=guard.tls,
            socket_factory=connect,
            force_close=True,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(total=None, connect=SECONDS),
        auto_decompress=False,
        requote_redirect_url=False,
        trust_env=False,
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
    )
