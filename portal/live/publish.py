"""Sends events to the pages of one user; never raises, never blocks for long.

Channel layers are bound to an event loop, and the in-memory one to the web server's: a worker
thread has to hand its message over to it (STACK §2.2.2), which `use_loop` registers.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from portal.live.events import Event
from portal.services import network

log = logging.getLogger(__name__)
SEND_SECONDS = 5.0
_web_loop: asyncio.AbstractEventLoop | None = None


def use_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """Register the loop that serves sockets, or None when it has stopped."""
    global _web_loop
    _web_loop = loop


def group_of(user_id: int) -> str:
    return f"user.{user_id}"


def publish_after_commit(user_id: int, event: Event) -> None:
    transaction.on_commit(partial(publish, user_id, event), robust=True)


def publish(user_id: int, event: Event) -> None:
    """Hand the event to the loop that serves this process's sockets, else to the network loop.

    The in-memory layer reaches no other process: without sockets here, nobody could listen.
    """
    if _web_loop is not None:
        asyncio.run_coroutine_threadsafe(_send(user_id, event), _web_loop)
    elif settings.CLUSTER:
        network.begin(_send(user_id, event))


async def _send(user_id: int, event: Event) -> None:
    message = {"type": "live.event", "event": event}
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await get_channel_layer().group_send(group_of(user_id), message)
    except Exception as error:  # a hint must never undo the work it tells of
        log.warning("could not publish an event: %s", str(error) or type(error).__name__)
