"""The legacy event streams: whose they are, and what they refuse (mcp-server §§3-4)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import httpx
import pytest

from portal.mcp.mailboxes import MOST_LETTERS, LocalMailboxes, RedisMailboxes
from portal.wire.errors import Unavailable
from tests.mcp.clients import ACCEPT, Keys, call
from tests.running_server import RunningServer
from tests.services import Valkey

pytestmark = pytest.mark.embedded


@asynccontextmanager
async def opened(portal: RunningServer, key: str) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
    """The address for messages, and the lines of the stream."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        http.stream("GET", f"{portal.url}/sse") as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: endpoint"
        yield urljoin(str(stream.url), (await anext(lines)).removeprefix("data: ")), lines


async def post(address: str, key: str, message: object) -> httpx.Response:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}", **ACCEPT}) as http:
        return await http.post(address, json=message)


async def test_it_takes_messages_from_nobody_but_the_key_that_opened_it(
    portal: RunningServer, keys: Keys
) -> None:
    async with opened(portal, keys.plain) as (address, lines):
        foreign = await post(address, keys.other, call("ping", to="theirs"))
        unknown = await post(f"{portal.url}/messages/?session_id={'0' * 32}", keys.other, call("ping"))
        mine = await post(address, keys.plain, call("initialize", to="mine", protocolVersion="2025-06-18"))
        answers = [line async for line in first(lines, "data: ")]
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert mine.status_code == 202
    assert '"id":"mine"' in answers[0]
    assert "theirs" not in answers[0]


async def first(lines: AsyncIterator[str], prefix: str) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith(prefix):
            yield line
            return


async def test_it_names_an_address_that_shows_no_key(portal: RunningServer, keys: Keys) -> None:
    async with (
        httpx.AsyncClient(timeout=60) as http,
        http.stream("GET", f"{portal.url}/{keys.url}/sse") as stream,
    ):
        lines = stream.aiter_lines()
        shown = [await anext(lines) for _ in range(2)]
    assert shown[1].startswith("data: messages/?session_id=")
    assert keys.url not in "".join(shown)


@pytest.mark.parametrize(
    ("path", "message", "status"),
    [
        ("/messages/", call("ping"), 400),
        ("/messages/?session_id=", call("ping"), 400),
        ("/messages/?session_id=x", [call("ping")], 400),
        ("/messages/?session_id=x", {"id": 1}, 400),
        ("/messages/?session_id=x", call("ping"), 404),
    ],
)
async def test_it_says_what_is_wrong_with_a_message(
    portal: RunningServer, keys: Keys, path: str, message: object, status: int
) -> None:
    assert (await post(portal.url + path, keys.plain, message)).status_code == status


async def test_it_forgets_a_stream_that_its_client_has_left(portal: RunningServer, keys: Keys) -> None:
    async with opened(portal, keys.plain) as (address, _):
        assert (await post(address, keys.plain, call("ping"))).status_code == 202
    for _ in range(100):
        answer = await post(address, keys.plain, call("ping"))
        if answer.status_code == 404:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the stream is still there")


async def test_it_tells_whoever_writes_more_than_is_read_to_wait() -> None:
    boxes = LocalMailboxes()
    async with boxes.open("1.a") as letters:
        for number in range(MOST_LETTERS):
            assert await boxes.post("1.a", str(number).encode())
        with pytest.raises(Unavailable):
            await boxes.post("1.a", b"one more")
        assert await anext(letters) == b"0"
        assert not await boxes.post("2.a", b"a stranger's")
    assert not await boxes.post("1.a", b"late")


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """One of its own, to be stopped."""
    server = Valkey()
    server.start()
    yield server
    server.close()


@asynccontextmanager
async def boxes_of(valkey: Valkey, **more: float) -> AsyncIterator[RedisMailboxes]:
    boxes = RedisMailboxes(valkey.url, **more)
    yield boxes
    await boxes.close()


async def test_it_ends_a_stream_whose_redis_was_restarted(valkey: Valkey) -> None:
    """Its client opens another: what came in the meantime would be lost without a word."""
    async with boxes_of(valkey) as boxes:
        async with boxes.open("1.a") as letters:
            assert await boxes.post("1.a", b"one")
            assert await anext(letters) == b"one"
            valkey.stop()
            with pytest.raises(Unavailable):
                await boxes.post("1.a", b"away")
            valkey.start()
            assert not await boxes.post("1.a", b"nobody listens")
            assert [letter async for letter in letters] == []
        async with boxes.open("1.a") as letters:
            assert await boxes.post("1.a", b"two")
            assert await anext(letters) == b"two"


async def test_it_ends_a_stream_whose_redis_says_nothing_any_more(valkey: Valkey) -> None:
    assert valkey.process is not None
    async with boxes_of(valkey, look_seconds=0.1) as boxes, boxes.open("1.a") as letters:
        later = asyncio.ensure_future(anext(letters))
        await asyncio.wait({later}, timeout=0.5)  # the silence is asked about, and answered
        assert await boxes.post("1.a", b"one")
        assert await later == b"one"
        valkey.process.send_signal(signal.SIGSTOP)
        assert [letter async for letter in letters] == []
        valkey.process.send_signal(signal.SIGCONT)
