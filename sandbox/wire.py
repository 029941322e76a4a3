"""What leaves the sandbox: JSON with exact decimals, errors, event streams, connections broken on purpose."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# json cannot write a Decimal: it becomes a string behind a mark that no request can guess, then is unquoted.
_MARK = uuid.uuid4().hex
_MARKED = re.compile(f'"{_MARK}(-?[0-9.]+)"')


class ConnectionDropped(Exception):
    """Stands for a broken connection where the server offers no socket to break (an in-process transport)."""


class Cut:
    """In an event stream: close the connection here, without the end of the body."""


def _exact(value: object) -> str:
    if isinstance(value, Decimal):
        return f"{_MARK}{value:f}"
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def dump(body: object) -> bytes:
    """JSON without spaces; a Decimal becomes a number with exactly its digits."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_exact)
    if _MARK in text:
        text = _MARKED.sub(r"\1", text)
    return text.encode()


def reply(status: int, body: object) -> Response:
    return Response(dump(body), status, media_type="application/json")


def refusal(status: int, kind: str, message: str, param: str | None = None) -> Response:
    """The gateway's error envelope; `code` is the integer HTTP status (perplexity-api §2)."""
    error: dict[str, Any] = {"message": message, "type": kind, "code": status}
    if param is not None:
        error["param"] = param
    return reply(status, {"error": error})


def _transport(receive: Receive) -> asyncio.Transport:
    # ASGI has no way to hang up: uvicorn's request cycle, to which `receive` is bound, holds the socket.
    found = getattr(getattr(receive, "__self__", None), "transport", None)
    if found is None:
        raise ConnectionDropped
    transport: asyncio.Transport = found
    return transport


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class DroppedConnection(Response):
    """No answer at all: the client sees the connection close."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _transport(receive).abort()
        await _until_gone(receive)


class CutResponse(Response):
    """A body that announces its whole length and stops half way."""

    def __init__(self, whole: bytes) -> None:
        super().__init__(whole, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body[: len(self.body) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        _transport(receive).close()
        await _until_gone(receive)


class EventStream(Response):
    """Server-sent events; ends with the iterator, at a `Cut`, or when the client leaves.

    The headers come `late` by so many seconds. `ending` tells how it ended: done, cut or left; `sent` counts
    the writes.
    """

    def __init__(self, events: AsyncIterator[bytes | Cut], late: float = 0.0) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-cache"})
        del self.headers["content-length"]
        self._events, self._late = events, late
        self.ending = "left"
        self.sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = [
            asyncio.ensure_future(self._pump(receive, send)),
            asyncio.ensure_future(_until_gone(receive)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _pump(self, receive: Receive, send: Send) -> None:
        await asyncio.sleep(self._late)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events:
            if isinstance(event, Cut):
                self.ending = "cut"
                _transport(receive).close()
                return
            await send({"type": "http.response.body", "body": event, "more_body": True})
            self.sent += 1
        self.ending = "done"
        await send({"type": "http.response.body", "body": b"", "more_body": False})
