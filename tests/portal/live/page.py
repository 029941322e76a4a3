"""The browser's end of a page's socket, without a network: channels' own stands on daphne."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

SECONDS = 10.0


class Page:
    def __init__(
        self,
        application: Any,
        cookie: str,
        *,
        origin: str = "http://localhost:8000",
        host: str = "localhost:8000",
        path: str = "/ws/",
    ) -> None:
        headers = {"origin": origin, "host": host, "cookie": f"sessionid={cookie}"}
        self.scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        communicator: Any = ApplicationCommunicator  # it carries no types
        self._end = communicator(application, self.scope)

    async def connect(self) -> bool:
        """Whether the portal accepts the socket."""
        await self._end.send_input({"type": "websocket.connect"})
        answer = await self._end.receive_output(SECONDS)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, message: str | bytes) -> None:
        member = "text" if isinstance(message, str) else "bytes"
        await self._end.send_input({"type": "websocket.receive", member: message})

    async def hear(self) -> Any:
        """The next message, parsed."""
        return json.loads((await self._end.receive_output(SECONDS))["text"])

    async def hears_nothing(self) -> bool:
        return bool(await self._end.receive_nothing(0.3))

    async def hear_the_close(self) -> int:
        """Its code, past whatever was said before it."""
        while True:
            message = await self._end.receive_output(SECONDS)
            if message["type"] == "websocket.close":
                return int(message["code"])

    async def leave(self) -> None:
        await self._end.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._end.wait(SECONDS)
