"""Two ways to a sandbox: in this process with a clock of our own, and as a real server on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from sandbox.app import Stamp, build_app
from tests.sandbox.visitor import HEADERS, Clock, Visitor
from tests.sandbox_server import SandboxServer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(tmp_path: Path, clock: Clock) -> Iterator[Stamp]:
    made = build_app(tmp_path / "sandbox.sqlite3", seconds=10, clock=clock)
    yield made
    made.close()


@pytest.fixture
async def visitor(app: Stamp, clock: Clock) -> AsyncIterator[Visitor]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox", headers=HEADERS) as client:
        yield Visitor(client, clock)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite3", seconds=0.2) as server:
        yield server


@pytest.fixture
def server(shared_server: SandboxServer) -> SandboxServer:
    """A real sandbox whose runs take 0.2 s, empty at the start of each test."""
    shared_server.reset()
    return shared_server


@pytest.fixture
def client(server: SandboxServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=HEADERS, timeout=10, trust_env=False) as client:
        yield client
