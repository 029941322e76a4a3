"""Calls the whole ASGI application in this process, as a server would, without a socket.

Whatever a door answers that OpenAI has too must fit OpenAI's own document, stream and error included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from tests.openapi import misfits

HOST = "http://127.0.0.1:8000"


class Client:
    """Synchronous, so that tests read top to bottom; each call has an event loop of its own."""

    def __init__(self, application: Any, key: str | None = None) -> None:
        self.application = application
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.application)
            async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
                return await client.request(method, path, headers={**self.headers, **(headers or {})}, **more)

        response = asyncio.run(call())
        faults = misfits(method, path, response)
        assert not faults, faults
        return response

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)
