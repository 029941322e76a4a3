"""Whether a call had left or not: the difference between trying again and charging twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from pytest_django import Settings

from portal.http import async_client
from portal.reader import Reader
from research.backends.base import exchange, read
from research.protocol.outcome import Fault, Refused
from tests.portal.listener import Listener


@pytest.fixture(autouse=True)
def short_lease(settings: Settings) -> None:
    settings.RESEARCH_LEASE_SECONDS = 2


@contextmanager
def deaf_port() -> Iterator[str]:
    """An address that answers no connection: its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        crowd = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            crowd.append(one)
        yield f"http://127.0.0.1:{address[1]}"
        for one in crowd:
            one.close()


@asynccontextmanager
async def silent(*, cut: bool) -> AsyncIterator[str]:
    """A server that takes a request and says nothing, or hangs up."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not cut:
            await reader.read()  # until the other side has had enough
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await ended.wait()
    await server.wait_closed()


async def post(url: str) -> Fault | int:
    async with async_client(url) as client:
        answer = await exchange(client, "POST", "/v1/agent", json={})
    return answer.fault if isinstance(answer, Refused) else answer.status


async def test_it_knows_that_nothing_left_where_no_connection_is_answered() -> None:
    with deaf_port() as url:
        assert await post(url) is Fault.UNREACHABLE


async def test_it_knows_that_nothing_left_where_nobody_listens() -> None:
    assert await post("http://127.0.0.1:9") is Fault.UNREACHABLE


async def test_it_tells_people_why_a_host_cannot_be_reached_without_the_system_s_number() -> None:
    async with async_client("http://no-such-host.invalid") as client:
        answer = await exchange(client, "POST", "/v1/agent", json={})

    assert isinstance(answer, Refused)
    assert answer.message.startswith("The upstream cannot be reached: ")
    assert "Errno" not in answer.message


async def test_it_knows_that_nothing_left_while_every_connection_was_taken() -> None:
    async with silent(cut=False) as url, async_client(url, connections=1) as client:
        first = asyncio.create_task(exchange(client, "POST", "/v1/agent", json={}))
        await asyncio.sleep(0.1)
        second = await exchange(client, "POST", "/v1/agent", json={})
        assert isinstance(second, Refused)
        assert second.fault is Fault.UNREACHABLE
        lost = await first
    assert isinstance(lost, Refused)
    assert lost.fault is Fault.LOST


@pytest.mark.parametrize("cut", [True, False])
async def test_it_does_not_know_what_became_of_a_request_that_left(cut: bool) -> None:
    async with silent(cut=cut) as url:
        assert await post(url) is Fault.LOST


@pytest.mark.parametrize("key", ["pplx-ключ", "pplx\n"])
async def test_it_refuses_a_key_that_no_request_can_carry_and_does_not_show_it(key: str) -> None:
    with Listener() as upstream:
        async with async_client(upstream.url) as client:
            answer = await exchange(client, "POST", "/", json={}, headers={"Authorization": f"Bearer {key}"})
        assert isinstance(answer, Refused)
        assert key.strip() not in answer.message
        assert upstream.requests == []


async def test_it_reads_over_connections_that_it_keeps() -> None:
    with Listener() as upstream:
        reader = Reader(upstream.url)
        answers = [
            await read(reader, "/v1/agent/a%2Fb", {"Authorization": "Bearer pplx-x"}) for _ in range(2)
        ]
        await reader.aclose()
    assert [getattr(answer, "status", answer) for answer in answers] == [200, 200]
    assert upstream.requests == ["GET /v1/agent/a%2Fb"] * 2
    assert upstream.headers[0]["authorization"] == "Bearer pplx-x"


@pytest.mark.parametrize("cut", [True, False])
async def test_it_gives_up_a_look_in_its_share_of_the_lease(cut: bool) -> None:
    async with silent(cut=cut) as url:
        reader = Reader(url)
        async with asyncio.timeout(1.5):
            answer = await read(reader, "/", {})
        await reader.aclose()
    assert isinstance(answer, Refused)
    assert answer.fault is Fault.LOST


async def test_it_cannot_reach_for_a_look_what_does_not_listen() -> None:
    reader = Reader("http://127.0.0.1:9")
    answer = await read(reader, "/", {})
    await reader.aclose()
    assert isinstance(answer, Refused)
    assert answer.fault is Fault.UNREACHABLE
