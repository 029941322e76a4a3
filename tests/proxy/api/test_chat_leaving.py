"""Clients that leave a chat, at every moment, and the server that stops."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from proxy.models.accounts import WebAccount
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def asks(sandbox: SandboxServer) -> list[dict[str, Any]]:
    return sandbox.web_requests("/rest/sse/perplexity_ask")


async def asked(sandbox: SandboxServer) -> None:
    """Until a question has reached the sandbox."""
    for _ in range(500):
        if await asyncio.to_thread(asks, sandbox):
            return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("stream", [False, True])
def test_it_leaves_the_upstream_when_the_client_leaves_before_the_first_token(
    sandbox: SandboxServer, who: Chatter, stream: bool
) -> None:
    async def leave() -> float:
        here = who.visit("Why? [sandbox:web.first-frame=20]", stream=stream)
        await asked(sandbox)
        before = time.monotonic()
        here.leave()
        await here.end()
        while (await asyncio.to_thread(asks, sandbox))[0]["ended_at"] is None:
            assert time.monotonic() - before < 2
            await asyncio.sleep(0.02)
        return time.monotonic() - before

    assert asyncio.run(leave()) < 2
    assert len(asks(sandbox)) == 1
    assert (who.spent, who.turn.state) == ("0 0", "cancelled")


def test_it_closes_the_connection_when_the_client_leaves_before_the_head(
    who: Chatter, settings: Settings
) -> None:
    async def leave() -> None:
        connected, closed = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connected.set()
            while await reader.read(65536):
                pass
            closed.set()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            settings.PERPLEXITY_BASE_URL = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            here = who.visit()
            await connected.wait()
            here.leave()
            await here.end()
            await asyncio.wait_for(closed.wait(), 2)

    asyncio.run(leave())

    assert (who.spent, who.turn.state) == ("0 0", "cancelled")


def test_it_leaves_the_upstream_and_charges_when_the_client_leaves_in_the_middle(
    sandbox: SandboxServer, who: Chatter
) -> None:
    async def leave() -> None:
        here = who.visit("Why? [sandbox:duration=20] [sandbox:pieces=200]", stream=True)
        await here.until(b'"content"')
        here.leave()
        await here.end()

    asyncio.run(leave())

    assert (who.spent, who.turn.state) == ("0.1 0", "cancelled")
    deadline = time.monotonic() + 2
    while asks(sandbox)[0]["ending"] != "left":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_charges_nothing_when_the_client_leaves_a_plain_answer_in_the_middle(
    sandbox: SandboxServer, who: Chatter
) -> None:
    async def leave() -> None:
        here = who.visit("Why? [sandbox:duration=20] [sandbox:pieces=200]")
        await asked(sandbox)
        await asyncio.sleep(0.3)
        here.leave()
        await here.end()

    asyncio.run(leave())

    assert (who.spent, who.turn.state) == ("0 0", "cancelled")


def test_it_releases_what_the_stopping_server_gives_up(who: Chatter) -> None:
    async def stop() -> bytes:
        here = who.visit("Why? [sandbox:web.slow=20]")
        await asyncio.sleep(0.3)
        here.task.cancel()
        await here.task
        return here.body

    assert b"restarting" in asyncio.run(stop())
    assert who.spent == "0 0"
