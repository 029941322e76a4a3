"""The plain client: sandbox, this machine, or an operator who does not want an impersonation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from yarl import URL

from portal.http_streams import (
    StreamConnectFailed,
    StreamError,
    StreamResponse,
    StreamSession,
    stream_session,
)
from proxy.upstream.exchange import Lost, Reply, Request, Unreachable

CONNECT_SECONDS = 10.0
CONNECTIONS = 4096
"""Streams at once: an open answer holds one each."""


class PlainReply:
    def __init__(self, response: StreamResponse) -> None:
        self._response = response
        self.status = response.status

    @cached_property
    def headers(self) -> Mapping[str, str]:
        found = ((name.lower(), value) for name, value in self._response.headers.items())
        return {name: value for name, value in found if name != "set-cookie"}

    @property
    def set_cookies(self) -> tuple[str, ...]:
        return tuple(self._response.headers.getall("set-cookie", ()))

    @property
    def is_over(self) -> bool:
        return self._response.content.at_eof()

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except StreamError as error:
            raise Lost(type(error).__name__) from None

    def break_off(self) -> None:
        self._response.content.set_exception(StreamError())

    async def close(self) -> None:
        self._response.close()


class PlainClient:
    """Patience is the caller's: only connecting is bounded here."""

    def __init__(self) -> None:
        self._session: StreamSession = stream_session(CONNECTIONS, CONNECT_SECONDS)

    async def open(self, request: Request) -> Reply:
        try:
            response = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
            )
        except StreamConnectFailed as error:
            raise Unreachable(type(error).__name__) from None
        except StreamError as error:
            raise Lost(type(error).__name__) from None
        return PlainReply(response)

    async def close(self) -> None:
        await self._session.close()
