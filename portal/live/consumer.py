"""The one socket of a page: hints for its user, out; nothing but pings, in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from importlib import import_module
from typing import Any, TypedDict

from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from portal.live.events import Event
from portal.live.publish import group_of

PATH = "/ws/"
NOT_LOGGED_IN = 4401
TOO_BIG = 1009
LONGEST_MESSAGE = 1024
"""Characters; a page has nothing longer to say than a ping."""

_sessions = import_module(settings.SESSION_ENGINE)


class LiveMessage(TypedDict):
    """What `portal.live.publish` sends to a group."""

    type: str
    event: Event


class PageSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels carries no types
    """Accepts whoever has a session; others are told so by close code 4401.

    Every `pulse` seconds the page gets a ping, by which it knows a live connection, and the
    session is looked up again: it may have ended, or its user been disabled.
    """

    pulse = 20.0
    pulsing: asyncio.Task[None] | None = None
    has_left = False

    async def connect(self) -> None:
        self.group = ""
        user = self.scope["user"]
        if not user.is_authenticated:
            # Only an accepted socket can tell its reason; a refused handshake looks like an outage.
            await self.accept()
            await self.close(NOT_LOGGED_IN)
            return
        self.group = group_of(user.pk)
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()
        self.pulsing = asyncio.create_task(self._pulse())

    async def disconnect(self, code: int) -> None:
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def __call__(self, *connection: Any) -> None:
        """However it ends, its pulse does too."""
        try:
            await super().__call__(*connection)
        finally:
            self.has_left = True  # asgiref swallows a cancellation that comes while it asks the database
            if self.pulsing is not None:
                self.pulsing.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message = text_data or ""
        if bytes_data or len(message) > LONGEST_MESSAGE:
            await self.close(TOO_BIG)
        elif _is_ping(message):
            await self._tell({"type": "pong"})

    async def live_event(self, message: LiveMessage) -> None:
        await self._tell(message["event"])

    async def _tell(self, event: Any) -> None:
        await self.send(text_data=json.dumps(event))

    async def _pulse(self) -> None:
        with contextlib.suppress(OSError):  # the page has left: its disconnect is on its way
            while not self.has_left:
                await asyncio.sleep(self.pulse)
                if not await self._is_logged_in():
                    await self.close(NOT_LOGGED_IN)
                    return
                await self._tell({"type": "ping"})

    async def _is_logged_in(self) -> bool:
        fresh = _sessions.SessionStore(self.scope["session"].session_key)
        # A database that is away for a moment logs nobody out.
        with contextlib.suppress(DatabaseError, InterfaceError):
            return bool((await get_user({"session": fresh})).is_authenticated)
        return True


def _is_ping(message: str) -> bool:
    try:
        parsed = json.loads(message)
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict) and parsed.get("type") == "ping"
