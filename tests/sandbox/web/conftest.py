"""The web backend in this process, with answers that take no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from sandbox.app import Stamp, build_app
from tests.sandbox.visitor import Clock
from tests.sandbox.web.listener import WebVisitor


@pytest.fixture
def web_app(tmp_path: Path, clock: Clock) -> Iterator[Stamp]:
    made = build_app(tmp_path / "web.sqlite3", seconds=0, chat_seconds=0, clock=clock)
    yield made
    made.close()


@pytest.fixture
async def web(web_app: Stamp) -> AsyncIterator[WebVisitor]:
    transport = httpx.ASGITransport(web_app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
        yield WebVisitor(client)
