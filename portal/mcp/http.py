"""Streamable HTTP: every request by itself, any process may answer it (mcp-server §§2-4).

The SDK's manager wants to be entered and left by one task that lives as long as it serves.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.conf import settings
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from portal.api.intake import LARGEST_BODY
from portal.api.streaming import Receive, Send
from portal.live.ending import of_server
from portal.mcp.mailboxes import LocalMailboxes, RedisMailboxes
from portal.mcp.server import build_server
from portal.mcp.streams import Streams
from portal.mcp.toolbox import VISIT, PortalToolbox, Visit

log = logging.getLogger(__name__)


class Transports:
    """Both transports over one server, from `start` to `stop`."""

    def __init__(self) -> None:
        self.server = build_server(PortalToolbox(_visit_of))
        boxes = RedisMailboxes(settings.REDIS_URL) if settings.REDIS_URL else LocalMailboxes()
        self.streams = Streams(self.server, boxes, of_server)
        # Answers are event streams: as plain JSON they would lose progress, and outlive their client.
        self._manager = StreamableHTTPSessionManager(
            self.server, stateless=True, json_response=False, max_request_body_size=LARGEST_BODY
        )
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """Raises what keeps the manager from serving."""
        ready = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(ready))
        await ready

    def is_over(self) -> bool:
        """Whether the manager has ended by itself: it cannot be entered again."""
        return self._running is not None and self._running.done()

    async def stop(self) -> None:
        self._stop.set()
        if self._running is not None:
            await asyncio.wait({self._running})
        await self.streams.boxes.close()

    async def handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        try:
            async with self._manager.run():
                ready.set_result(None)
                await self._stop.wait()
        except Exception as problem:
            log.exception("the MCP server has ended")
            if not ready.done():
                ready.set_exception(problem)


async def _visit_of(caller: object) -> Visit:
    """Of a Streamable HTTP request, or of a message that came to an event stream."""
    if isinstance(caller, Visit):
        return caller
    visit: Visit = caller.scope[VISIT]  # type: ignore[attr-defined]  # the SDK's request
    return visit
