"""The one builder of HTTP clients, and the only module that imports httpx (STACK §1.2).

Clients never read proxies or certificates from the environment and never follow a redirect:
an upstream that redirects would otherwise be handed our credentials. Every call is bounded in
time; a caller that wants another bound passes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from ssl import SSLContext

from httpx import (
    AsyncClient,
    ConnectError,
    ConnectTimeout,
    HTTPError,
    InvalidURL,
    Limits,
    PoolTimeout,
    Response,
    Timeout,
    TimeoutException,
    create_ssl_context,
)

from portal.wire.version import VERSION

__all__ = [
    "AsyncClient",
    "ConnectError",
    "ConnectFailed",
    "HTTPError",
    "InvalidURL",
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
ConnectFailed = (ConnectError, ConnectTimeout, PoolTimeout)
"""Errors after which nothing was sent."""


@cache
def _tls() -> SSLContext:
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
        verify=_tls(),
        limits=Limits(max_connections=connections, keepalive_expiry=KEEP_SECONDS),
        trust_env=False,
        follow_redirects=False,
    )
