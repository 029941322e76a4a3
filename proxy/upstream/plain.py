"""The plain client: sandbox, this machine, or an operator who does not want an impersonation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import cached_property

from portal.http import ConnectFailed, HTTPError, InvalidURL, Response, Timeout, async_client
from proxy.upstream.transport import Lost, Reply, Request, Unreachable

CONNECT_SECONDS = 10.0
CONNECTIONS = 4096
"""Streams at once: an open answer holds one each."""


class PlainReply:
    def __init__(self, response: Response) -> None:
        self._response = response
        self.status = response.status_code

    @cached_property
    def headers(self) -> Mapping[str, str]:
        return {name: value for name, value in self._response.headers.items() if name != "set-cookie"}

    @property
    def set_cookies(self) -> tuple[str, ...]:
        return tuple(self._response.headers.get_list("set-cookie"))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except HTTPError as error:
            raise Lost(type(error).__name__) from None

    async def close(self) -> None:
        await self._response.aclose()


class PlainClient:
    """Patience is the caller's: only connecting is bounded here."""

    def __init__(self) -> None:
        timeout = Timeout(None, connect=CONNECT_SECONDS)
        self._client = async_client(timeout=timeout, connections=CONNECTIONS)

    async def open(self, request: Request) -> Reply:
        try:
            built = self._client.build_request(
                request.method, request.url, headers=dict(request.headers), content=request.body
            )
            return PlainReply(await self._client.send(built, stream=True))
        except (*ConnectFailed, InvalidURL) as error:
            raise Unreachable(type(error).__name__) from None
        except HTTPError as error:
            raise Lost(type(error).__name__) from None

    async def close(self) -> None:
        await self._client.aclose()
