"""Before a page's socket: who may open one, and what is said when something behind it is away."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

from channels.auth import AuthMiddleware
from channels.sessions import CookieMiddleware, SessionMiddleware
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http.request import split_domain_port, validate_host

from portal.live.consumer import PageSocket

log = logging.getLogger(__name__)

TRY_AGAIN = 1013
_inner: Any = CookieMiddleware(SessionMiddleware(AuthMiddleware(PageSocket.as_asgi())))


async def page_socket(scope: Any, receive: Any, send: Any) -> None:
    """Pages of other origins get no socket (403). A page that loses its own polls, and comes again."""
    if not is_our_page(scope["headers"]):
        await send({"type": "websocket.close"})
        return
    try:
        await _inner(scope, receive, send)
    except _away() as error:  # asked for once something went wrong
        log.warning("a page lost its socket: %s", type(error).__name__)
        with contextlib.suppress(OSError, RuntimeError):  # it may have left, or been told already
            await send({"type": "websocket.close", "code": TRY_AGAIN})


def _away() -> tuple[type[Exception], ...]:
    """What is raised when something behind a socket is away."""
    if not settings.REDIS_URL:
        return DatabaseError, InterfaceError, OSError
    # Loaded where there is a Redis: its client takes a twentieth of a start in embedded mode.
    from redis import RedisError  # noqa: PLC0415

    return RedisError, DatabaseError, InterfaceError, OSError


def is_our_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the browser says that a page of ours asks: of the host and port that it asks at, or of
    the public address, where a proxy names another host. Cookies know no ports, so a page of another
    port of this machine would come with our session."""
    said = {name: value.decode("latin-1").lower() for name, value in headers}
    origin, host = said.get(b"origin", ""), said.get(b"host", "")
    if origin == settings.PUBLIC_URL.lower():
        return True
    scheme, _, place = origin.partition("://")
    known = validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
    return (scheme == "https" or (scheme == "http" and not settings.SECURE)) and place == host and known
