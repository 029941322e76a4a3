"""The one builder of HTTP clients, and the only module that imports httpx (STACK §1.2); what is read by the
thousand is `portal.reader`'s, what comes piece by piece `portal.http_streams`'.

Clients never read proxies or certificates from the environment and never follow a redirect:
an upstream that redirects would otherwise be handed our credentials. Every call is bounded in
time; a caller that wants another bound passes one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from ssl import SSLContext

from httpx import (
    AsyncClient,
    ConnectError,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    Limits,
    LocalProtocolError,
    PoolTimeout,
    ReadError,
    Response,
    Timeout,
    TimeoutException,
    create_ssl_context,
)

from portal.wire.addresses import is_public
from portal.wire.version import VERSION

__all__ = [
    "AsyncClient",
    "CannotBeSent",
    "ConnectError",
    "ConnectFailed",
    "Guard",
    "HTTPError",
    "InvalidURL",
    "NotPublic",
    "ReadError",
    "Response",
    "Timeout",
    "TimeoutException",
    "async_client",
]

USER_AGENT = f"sonde/{VERSION}"
SECONDS = 30.0
CONNECTIONS = 100
KEEP_SECONDS = 30.0
"""How long an idle connection is kept, in seconds."""
LONGEST_HEADER = 64 * 1024
"""Bytes of one header of an answer: cookies may be long."""
ConnectFailed = (ConnectError, ConnectTimeout, PoolTimeout)
"""Errors after which nothing was sent."""
CannotBeSent = (InvalidURL, LocalProtocolError, ValueError)
"""Errors of a request that is none: its address or a header is wrong. Their words may show a key."""


@cache
def tls() -> SSLContext:
    # Reading the certificate bundle takes longer than a call: once per process.
    return create_ssl_context(trust_env=False)


def async_client(
    base_url: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    timeout: Timeout | float = SECONDS,
    connections: int = CONNECTIONS,
) -> AsyncClient:
    """A client of one upstream, bound to the event loop that first uses it.

    `timeout` bounds connecting, each read, each write and the wait for a free connection, in
    seconds each. Keep it short of the caller's lease: a stalled upstream must not outlive it.
    """
    return AsyncClient(
        base_url=base_url,
        headers={"User-Agent": USER_AGENT, **(headers or {})},
        timeout=timeout,
        verify=tls(),
        limits=Limits(max_connections=connections, keepalive_expiry=KEEP_SECONDS),
        trust_env=False,
        follow_redirects=False,
    )


class NotPublic(OSError):
    """A user's address leads somewhere else than into the public internet."""


async def resolve(host: str) -> Sequence[str]:
    """All addresses of a name, as the system knows them. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class Guard:
    """Where users' addresses may lead. Tests resolve, allow and trust what they have at hand."""

    resolve: Callable[[str], Awaitable[Sequence[str]]] = resolve
    allows: Callable[[str], bool] = is_public
    tls: SSLContext = field(default_factory=tls)
    port: int | None = None
    """Where names are connected to; None: as their address says."""

    def check(self, addresses: Sequence[str]) -> None:
        """Raises NotPublic unless every one of them may be connected to."""
        if not addresses or not all(self.allows(address) for address in addresses):
            raise NotPublic("not an address of the public internet")
