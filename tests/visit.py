"""One request to an ASGI application in this process, whose client can leave, and whose server can stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
PATIENCE = 20.0


class Visit:
    """Start it on a running event loop; `pieces` are the writes of the body, as they were made. A `stuck`
    client takes nothing."""

    def __init__(
        self,
        application: Any,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "",
        headers: dict[str, str] | None = None,
        stuck: bool = False,
    ) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json", **(headers or {})}
        if key:
            given["authorization"] = f"Bearer {key}"
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "client": ("127.0.0.1", 5),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._inbox.put_nowait({"type": "http.request", "body": raw, "more_body": False})
        self._moved = asyncio.Event()
        self.messages: list[Message] = []
        self._stuck = stuck
        self.task = asyncio.ensure_future(application(self.scope, self._inbox.get, self._send))
        self.task.add_done_callback(lambda _: self._moved.set())

    async def _send(self, message: Message) -> None:
        if self._stuck:
            await asyncio.sleep(PATIENCE)
        self.messages.append(message)
        self._moved.set()

    @property
    def pieces(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:] if message["body"]]

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def is_whole(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", True)

    async def until(self, wanted: bytes) -> None:
        """Until the body holds `wanted`."""
        async with asyncio.timeout(PATIENCE):
            while wanted not in self.body:
                assert not self.task.done(), f"it ended with {self.messages}"
                self._moved.clear()
                await self._moved.wait()

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def end(self) -> None:
        """Until the application has returned."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({self.task})
        if not self.task.cancelled():
            self.task.result()
