"""The ASGI application: sockets, pages and APIs, and a lifespan that owns what runs beside them.

`uvicorn portal.asgi:application` is a whole portal in embedded mode, as `manage.py up` is.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

# What follows needs Django set up.
from django.core.handlers.asgi import ASGIHandler  # noqa: E402

from portal.api.intake import Intake  # noqa: E402
from portal.api.large_forms import LargeForms  # noqa: E402
from portal.data_folder import FolderInUse  # noqa: E402
from portal.doors import doors  # noqa: E402
from portal.embedded import Embedded, PortTaken  # noqa: E402
from portal.live import consumer, publish  # noqa: E402
from portal.live.door import page_socket  # noqa: E402
from portal.mcp.gateway import Gateway  # noqa: E402
from portal.running.preparation import NotReady  # noqa: E402
from proxy.protocol.attachments import LARGEST  # noqa: E402

agents = Gateway()
SETTLING_SECONDS = 10.0
"""For which answers that the stopping server gave up may write down what of them was delivered."""
_answering: set[asyncio.Task[Any]] = set()


@cache
def pages() -> Intake:
    """Django's own application with its middleware, made for the first page: many a start is for none."""
    django_application: Any = ASGIHandler()
    return Intake(django_application, largest=LargeForms({"/": LARGEST + 1024 * 1024}))


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
    elif scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["path"] == consumer.PATH:
        await page_socket(scope, receive, send)
    else:
        await send({"type": "websocket.close"})


async def answer(scope: Any, receive: Any, send: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    _answering.add(task)
    try:
        await owner_of(scope["path"])(scope, receive, send)
    finally:
        _answering.discard(task)


def owner_of(path: str) -> Any:
    """The application that answers at this path."""
    if doors.serves(path):
        return doors
    return agents if agents.serves(path) else pages()


async def lifespan(receive: Any, send: Any) -> None:
    """Start the parts before the first request is taken, stop them after the last is answered."""
    await receive()
    parts = Embedded()
    publish.use_loop(asyncio.get_running_loop())
    try:
        await asyncio.to_thread(parts.start)
    except (FolderInUse, NotReady, PortTaken) as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    if _answering:
        await asyncio.wait(_answering, timeout=SETTLING_SECONDS)
    publish.use_loop(None)
    await agents.close()
    await asyncio.to_thread(parts.stop)
    await send({"type": "lifespan.shutdown.complete"})
