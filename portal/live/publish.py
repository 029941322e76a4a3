"""Sends events to the pages of one user; never raises, never blocks for long.

The in-memory channel layer is bound to the web server's event loop: a worker thread has to
hand its message over to that loop (STACK §2.2.2), which `use_loop` registers.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from portal.live.events import RunMoved

log = logging.getLogger(__name__)
_web_loop: asyncio.AbstractEventLoop | None = None


def use_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """Register the loop that serves sockets, or None when it has stopped."""
    global _web_loop
    _web_loop = loop


def group_of(user_id: int) -> str:
    return f"user.{user_id}"


def publish_after_commit(user_id: int, event: RunMoved) -> None:
    transaction.on_commit(partial(publish, user_id, event), robust=True)


def publish(user_id: int, event: RunMoved) -> None:
    message = {"type": "live.event", "event": event}
    layer = get_channel_layer()
    try:
        if settings.CLUSTER:
            async_to_sync(layer.group_send)(group_of(user_id), message)
        elif _web_loop is not None:
            asyncio.run_coroutine_threadsafe(layer.group_send(group_of(user_id), message), _web_loop)
    except Exception as error:  # a hint must never undo the work it tells of
        log.warning("could not publish an event: %s", error)
