"""The official Python client, over each transport that there is, as a person would set it up."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.running_server import ROOT, RunningServer

ACCEPT = {"Accept": "application/json, text/event-stream"}
HTTP = ("http", "http-url", "sse", "sse-url")
STDIO = ("stdio", "stdio-relay")
SECONDS = 60.0
"""The SDK's own five for a message are few on a busy machine, and it waits for ever after them."""
MODES = ("legacy", "auto", "2026-07-28")


@dataclass(frozen=True, slots=True)
class Keys:
    """`plain` goes into a header, `url` may stand in an address. `bare` opens the door and no tool, `shut`
    every tool and not the door, `slow` three requests a minute; `other` is another person's."""

    plain: str
    url: str
    bare: str
    shut: str
    slow: str
    other: str


@asynccontextmanager
async def connected(
    server: RunningServer, keys: Keys, transport: str = "http", mode: Any = "auto"
) -> AsyncIterator[Client]:
    bearer = {"Authorization": f"Bearer {keys.plain}"}
    async with AsyncExitStack() as stack:
        streams: Any
        if transport == "http":
            client = await stack.enter_async_context(httpx2.AsyncClient(headers=bearer, timeout=SECONDS))
            streams = streamable_http_client(f"{server.url}/mcp", http_client=client)
        elif transport == "http-url":
            streams = streamable_http_client(f"{server.url}/{keys.url}/mcp")
        elif transport == "sse":
            streams = sse_client(f"{server.url}/sse", headers=bearer, timeout=SECONDS)
        elif transport == "sse-url":
            streams = sse_client(f"{server.url}/{keys.url}/sse", timeout=SECONDS)
        else:
            distant = {"SONDE_URL": server.url} if transport == "stdio-relay" else {}
            streams = stdio_client(stdio_of(server, {"SONDE_API_KEY": keys.plain, **distant}))
        yield await stack.enter_async_context(Client(streams, mode=mode))


def stdio_of(server: RunningServer, environment: Mapping[str, str]) -> StdioServerParameters:
    """`manage.py mcp_stdio` on the server's own folder."""
    return StdioServerParameters(
        command=sys.executable,
        args=["manage.py", "mcp_stdio"],
        env={**server.environment, **environment},
        cwd=ROOT,
    )


def call(method: str, *, to: object = 1, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": to, "method": method, "params": params}
