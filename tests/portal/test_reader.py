"""The reader of many: answers cut at every byte, connections that end, and what no request can carry."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from portal import reader
from portal.http import ConnectError, ReadError
from portal.reader import Gotten, Reader
from tests.certificates import make_certificate

Play = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n1\r\n \r\n0\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + SMALL
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}"
ANSWERS = {"small": SMALL, "chunked": CHUNKED, "early": EARLY}


class Server:
    """Plays its answers one after the other, whatever connection asks; keeps what it was asked."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.requests: list[bytes] = []
        self.connections = 0
        self.tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while not outgoing.is_closing():
                self.requests.append(await incoming.readuntil(b"\r\n\r\n"))
                await self.play(len(self.requests), outgoing)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            outgoing.close()
            with suppress(ConnectionError):
                await outgoing.wait_closed()


@asynccontextmanager
async def served(
    play: Play, connections: int = 10, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, Reader]]:
    one = Server(play)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    client = Reader(f"{'https://localhost' if tls else 'http://127.0.0.1'}:{port}/base/", connections)
    try:
        async with asyncio.timeout(10):
            yield one, client
    finally:
        await client.aclose()
        server.close()
        await asyncio.gather(*(task for task in one.tasks if task))
        await server.wait_closed()


def saying(*pieces: bytes, closes: bool = False) -> Play:
    async def play(place: int, outgoing: asyncio.StreamWriter) -> None:
        for piece in pieces:
            outgoing.write(piece)
            await outgoing.drain()
            await asyncio.sleep(0)
        if closes:
            outgoing.close()

    return play


async def get(client: Reader, path: str = "/a", at_most: int = 1_000, **headers: str) -> Gotten:
    return await client.get(path, headers, at_most=at_most)


async def test_it_asks_below_its_base_over_one_connection() -> None:
    async with served(saying(SMALL)) as (server, client):
        answers = [await get(client, "/v1/agent/a%2Fb?x=1", Authorization="Bearer k") for _ in range(3)]
    assert answers[0].status == 200
    assert answers[0].body == b"{}"
    assert answers[0].headers["content-type"] == "application/json"
    assert (server.connections, len(server.requests)) == (1, 3)
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET /base/v1/agent/a%2Fb?x=1 HTTP/1.1"
    assert "Authorization: Bearer k" in lines
    assert "Accept-Encoding: identity" in lines


@pytest.mark.parametrize("name", ANSWERS)
async def test_it_reads_an_answer_cut_at_every_byte(name: str) -> None:
    whole = ANSWERS[name]

    async def play(place: int, outgoing: asyncio.StreamWriter) -> None:
        for piece in (whole[:place], whole[place:]):
            outgoing.write(piece)
            await outgoing.drain()
            await asyncio.sleep(0.001)

    async with served(play) as (server, client):
        answers = {(found.status, found.body.strip()) for found in [await get(client) for _ in whole[1:]]}
    assert answers == {(404 if name == "chunked" else 200, b"{}")}
    assert server.connections == 1


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with served(saying(TO_THE_END, closes=True)) as (server, client):
        assert [(await get(client)).body for _ in range(2)] == [b"{}", b"{}"]
    assert server.connections == 2


async def test_it_asks_again_where_a_kept_connection_was_closed_meanwhile() -> None:
    async def play(place: int, outgoing: asyncio.StreamWriter) -> None:
        if place == 2:  # the second request meets a server that has just hung up
            outgoing.transport.abort()
        else:
            outgoing.write(SMALL)

    async with served(play) as (server, client):
        assert [(await get(client)).status for _ in range(2)] == [200, 200]
    assert (server.connections, len(server.requests)) == (2, 3)


CUTS: Sequence[bytes] = (b"", b"HTTP/1.1 200 OK\r\nConte", SMALL[:-1], CHUNKED[:-3])


@pytest.mark.parametrize("cut", CUTS)
async def test_an_answer_that_is_cut_is_none(cut: bytes) -> None:
    async with served(saying(cut, closes=True)) as (_, client):
        with pytest.raises(ReadError, match="closed"):
            await get(client)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no answer"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx", "no answer"),
        (SMALL.replace(b"2\r\n\r\n{}", b"2000\r\n\r\n" + b" " * 2000), "longer than 1000"),
        (SMALL.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 300_000 + b"\r\n\r\n"), "too long"),
        (SMALL.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), "compressed"),
    ],
)
async def test_it_refuses_what_it_cannot_read(answer: bytes, told: str) -> None:
    async with served(saying(answer)) as (_, client):
        with pytest.raises(ReadError, match=told):
            await get(client)


async def test_what_comes_behind_an_answer_is_nobodys() -> None:
    async def play(place: int, outgoing: asyncio.StreamWriter) -> None:
        outgoing.write(SMALL.replace(b"{}", b"%02d" % place) + (SMALL if place == 1 else b""))

    async with served(play) as (server, client):
        assert [(await get(client)).body for _ in range(2)] == [b"01", b"02"]
    assert server.connections == 2


async def test_a_call_that_is_given_up_leaves_its_connection_to_nobody() -> None:
    late = asyncio.Event()

    async def play(place: int, outgoing: asyncio.StreamWriter) -> None:
        if place == 1:
            await late.wait()
        outgoing.write(SMALL.replace(b"{}", b"%02d" % place))

    async with served(play) as (server, client):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await get(client)
        late.set()
        assert (await get(client)).body == b"02"
    assert server.connections == 2


async def test_it_keeps_no_connection_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "KEEP_SECONDS", 0.0)
    async with served(saying(SMALL)) as (server, client):
        assert [(await get(client)).status for _ in range(2)] == [200, 200]
    assert server.connections == 2


async def test_it_asks_over_as_many_connections_as_it_may() -> None:
    async with served(saying(SMALL), connections=2) as (server, client):
        await asyncio.gather(*(get(client) for _ in range(10)))
    assert server.connections == 2


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("a", {}),
        ("/ä", {}),
        ("/a", {"X": "a\r\nY: b"}),
        ("/a", {"X": "a\n"}),
        ("/a", {"X\r\nY": "b"}),
        ("/a", {"X": "ключ"}),
    ],
)
async def test_it_sends_nothing_that_is_no_request(path: str, headers: dict[str, str]) -> None:
    async with served(saying(SMALL)) as (server, client):
        with pytest.raises(ValueError):  # noqa: PT011  # of whatever words: nobody is shown them
            await client.get(path, headers, at_most=10)
    assert server.connections == 0


async def test_it_says_that_nobody_listens() -> None:
    with pytest.raises(ConnectError):
        await get(Reader("http://127.0.0.1:9"))


@pytest.mark.parametrize("trusted", [True, False])
async def test_it_speaks_tls_with_whom_it_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    certificate = make_certificate(tmp_path / "pem", "localhost")
    there = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    there.load_cert_chain(certificate)
    if trusted:
        here = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(reader, "tls", lambda: here)
    async with served(saying(SMALL), tls=there) as (_, client):
        if trusted:
            assert [(await get(client)).body for _ in range(2)] == [b"{}", b"{}"]
        else:
            with pytest.raises(ConnectError, match="certificate"):
                await get(client)
