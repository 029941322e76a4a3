"""The bare relay of the benchmark: what a Python proxy costs that checks, counts and keeps nothing.

UPSTREAM=http://127.0.0.1:9100 uvicorn bench.relay:application --port 9101
"""

from __future__ import annotations

import os
from typing import Any

import aiohttp

UPSTREAM = os.environ.get("UPSTREAM", "")
_session: aiohttp.ClientSession | None = None


def session() -> aiohttp.ClientSession:
    global _session
    if _session is None:
        connector = aiohttp.TCPConnector(limit=0)
        _session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
    return _session


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {"content-type": "application/json"}
    async with session().post(UPSTREAM + scope["path"], data=body, headers=headers) as answer:
        kind = answer.headers["content-type"].encode()
        start = {"type": "http.response.start", "status": answer.status, "headers": [(b"content-type", kind)]}
        await send(start)
        async for chunk in answer.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
