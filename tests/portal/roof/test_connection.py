"""Clients that take their time or talk too much, on a real socket."""

from __future__ import annotations

import asyncio
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from portal.running import connection
from portal.running.connection import (
    LARGEST_HEAD,
    MOST_AHEAD,
    Connection,
    Socket,
    most_connections,
    raise_open_files,
)
from portal.running.server import open_socket

PATIENCE = 10.0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body but at /unread, takes a second to answer at /slow, and says so many bytes at /more/N."""
    if scope["type"] == "websocket":
        await receive()
        if scope["path"] == "/never":
            await asyncio.Event().wait()
        await send({"type": "websocket.accept"})
        await receive()
        return
    more = scope["path"] != "/unread"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    body = b"x" * int(scope["path"].removeprefix("/more/")) if "/more/" in scope["path"] else b"ok"
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HEAD_SECONDS", "LINGER_SECONDS", "READER_SECONDS"):
            patch.setattr(connection, name, 0.4)
        yield


@pytest.fixture(scope="module")
def server(impatient: None) -> Iterator[uvicorn.Server]:
    listener = open_socket("127.0.0.1", 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    config = uvicorn.Config(
        application,
        http=Connection,
        ws=Socket,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=1,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server
    server.should_exit = True
    thread.join()


Dial = Callable[..., socket.socket]


@pytest.fixture
def dial(server: uvicorn.Server) -> Iterator[Dial]:
    port = server.servers[0].sockets[0].getsockname()[1]
    opened: list[socket.socket] = []

    def connect(said: bytes = b"") -> socket.socket:
        client = socket.socket()
        client.settimeout(PATIENCE)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.connect(("127.0.0.1", port))
        opened.append(client)
        client.sendall(said)
        return client

    yield connect
    for client in opened:
        client.close()
    deadline = time.monotonic() + PATIENCE
    while server.server_state.connections:
        assert time.monotonic() < deadline, "a connection stays"
        time.sleep(0.01)


def hear(client: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    heard = b""
    try:
        while piece := client.recv(65536):
            heard += piece
    except ConnectionResetError:
        pass
    return heard


def hear_answer(client: socket.socket) -> bytes:
    heard = b""
    while not heard.endswith(b"ok"):
        piece = client.recv(65536)
        assert piece, heard
        heard += piece
    return heard


def dribble(client: socket.socket, drop: bytes) -> bytes:
    """A drop every now and then, until the server has had enough."""
    client.settimeout(0.05)
    deadline, heard = time.monotonic() + PATIENCE, b""
    while time.monotonic() < deadline:
        try:
            client.sendall(drop)
            piece = client.recv(65536)
            if not piece:
                return heard
            heard += piece
        except TimeoutError:
            continue
        except ConnectionError:
            return heard
    raise AssertionError("the server listened for ever")


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_it_answers(dial: Dial) -> None:
    assert hear_answer(dial(GET)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n", b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n"])
def test_it_hangs_up_on_who_says_nothing_more(dial: Dial, said: bytes) -> None:
    assert hear(dial(said)) == b""


@pytest.mark.parametrize(
    ("said", "drop"), [(b"GET / HTTP/1.1\r\n", b"a: b\r\n"), (b"", b"\r\n"), (b"GET /", b"x")]
)
def test_it_hangs_up_on_who_dribbles_a_head(dial: Dial, said: bytes, drop: bytes) -> None:
    assert dribble(dial(said), drop) == b""


def test_it_hangs_up_on_who_dribbles_the_second_head(dial: Dial) -> None:
    client = dial(GET)
    hear_answer(client)

    assert dribble(client, b"\r\n") == b""


@pytest.mark.parametrize("header", [b"a: " + b"b" * 4096, b"a: b\r\n" * 700])
def test_it_takes_no_head_without_end(dial: Dial, header: bytes) -> None:
    client = dial(b"GET / HTTP/1.1\r\n")

    heard = dribble(client, header)

    assert heard.startswith(b"HTTP/1.1 431") or heard == b""


def test_it_says_that_a_head_is_too_large(dial: Dial) -> None:
    client = dial(b"GET / HTTP/1.1\r\n")
    client.sendall(b"a: " + b"b" * LARGEST_HEAD)

    assert hear(client).startswith(b"HTTP/1.1 431")


FIELDS = b"a: b\r\n" * 60


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + FIELDS, b"200"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + FIELDS * 10, b"431"),
        (b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + (b"GET / HTTP/1.1\r\n" + FIELDS + b"\r\n") * 9, b"431"),
    ],
    ids=["some", "many", "many ahead of their answers"],
)
def test_it_keeps_only_so_many_lines_of_heads(dial: Dial, said: bytes, status: bytes) -> None:
    assert b"HTTP/1.1 " + status in hear(dial(said + b"\r\n"))


def test_it_takes_large_bodies_one_after_the_other(dial: Dial) -> None:
    client = dial()
    for _ in range(3):
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000)
        assert hear_answer(client).startswith(b"HTTP/1.1 200")


def test_it_takes_some_requests_ahead_of_their_answers(dial: Dial) -> None:
    client = dial(GET * 10)
    heard = b""
    while heard.count(b"\r\n\r\nok") < 10:
        heard += client.recv(65536)

    assert heard.count(b"HTTP/1.1 200") == 10


def test_it_takes_no_thousands_of_them(dial: Dial) -> None:
    heard = hear(dial(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + GET * 5000))

    assert b"HTTP/1.1 400" in heard
    assert heard.count(b"HTTP/1.1 200") <= MOST_AHEAD


@pytest.mark.parametrize("more", [GET * (MOST_AHEAD + 2), GET + b"no http\r\n\r\n"], ids=["many", "bad"])
def test_it_tells_of_no_trouble_when_it_hangs_up_with_an_answer_under_way(
    dial: Dial, caplog: pytest.LogCaptureFixture, more: bytes
) -> None:
    client = dial(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + more)
    hear(client)
    time.sleep(1.5)

    assert "Traceback" not in caplog.text


def test_it_waits_for_a_body_longer_than_for_a_head(dial: Dial) -> None:
    client = dial(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    time.sleep(0.8)
    client.sendall(b"b")

    assert hear_answer(client).startswith(b"HTTP/1.1 200")


def test_it_leaves_a_long_answer_its_time(dial: Dial) -> None:
    client = dial(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET")  # the next head has begun already

    assert hear_answer(client).startswith(b"HTTP/1.1 200")
    assert hear(client) == b""


def test_it_hangs_up_on_who_goes_on_after_the_answer(dial: Dial) -> None:
    client = dial(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")

    assert dribble(client, b"x").startswith(b"HTTP/1.1 200")


def test_it_keeps_who_finishes_after_the_answer(dial: Dial) -> None:
    client = dial(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
    hear_answer(client)
    client.sendall(b"xyz")
    client.sendall(GET)

    assert hear_answer(client).startswith(b"HTTP/1.1 200")


def is_cut_off(client: socket.socket) -> bool:
    """Without taking a byte of what is there."""
    poll = select.poll()
    poll.register(client, select.POLLHUP | select.POLLERR)
    return bool(poll.poll(PATIENCE * 1000))


@pytest.mark.parametrize("size", [4_000_000, 90_000], ids=["much", "little"])
@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n", b"\r\nGET / HTTP/1.1\r\n"])
def test_it_cuts_off_who_takes_nothing_of_an_answer(dial: Dial, size: int, more: bytes) -> None:
    head = b"GET /more/%d HTTP/1.1\r\nHost: x\r\n" % size

    assert is_cut_off(dial(head + more + b"\r\n"))


def test_it_gives_a_slow_reader_its_time(dial: Dial) -> None:
    client, took = dial(b"GET /more/1000000 HTTP/1.1\r\nHost: x\r\n\r\n"), 0
    while took < 1_000_000:
        took += len(client.recv(4096))
        time.sleep(0.004)  # a second in all, and more than is asked for in each of its parts


UPGRADE = b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.mark.parametrize(
    "more",
    [
        b"",
        KEY + b"Cookie: a=" + b"a" * 9000 + b"\r\n",
        KEY + b"a: b\r\n" * 200,
        KEY + b"Content-Length: 10\r\n",
    ],
    ids=["no key", "a long line", "many lines", "a body"],
)
def test_it_answers_what_is_no_handshake(dial: Dial, more: bytes) -> None:
    client = dial(b"GET /ws HTTP/1.1\r\n" + UPGRADE + more + b"\r\n")

    assert hear(client).startswith(b"HTTP/1.1 400")


def test_it_hangs_up_on_a_socket_that_nobody_answers(dial: Dial) -> None:
    client = dial(b"GET /never HTTP/1.1\r\n" + UPGRADE + KEY + b"\r\n")

    assert b"101" not in hear(client)


def test_it_leaves_sockets_of_pages_alone(dial: Dial) -> None:
    client = dial(b"GET /ws HTTP/1.1\r\n" + UPGRADE + KEY + b"\r\n")
    assert client.recv(65536).startswith(b"HTTP/1.1 101")
    client.settimeout(1)

    with pytest.raises(TimeoutError):
        client.recv(1)


def test_it_takes_so_many_clients(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "most_connections", lambda: 2)
    monkeypatch.setattr(connection, "HEAD_SECONDS", PATIENCE)
    first, _second = dial(), dial()
    time.sleep(0.2)

    assert hear(dial(GET)) == b""
    first.sendall(GET)
    assert hear_answer(first).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 20_000), [(20_000, 20_000)]),
        ((1024, 1_000_000), [(65_536, 1_000_000)]),
        ((1024, resource.RLIM_INFINITY), [(65_536, resource.RLIM_INFINITY)]),
        ((100_000, 1_000_000), []),
        ((4096, 4096), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
def test_it_opens_as_many_files_as_it_may(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: before)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))

    raise_open_files()

    assert asked == after


def test_it_asks_for_less_where_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse_much(kind: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        if limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse_much)

    raise_open_files()

    assert asked == [65_536, 10_240]


@pytest.mark.parametrize(
    ("files", "clients"), [(20_000, 10_000), (resource.RLIM_INFINITY, 10_000), (1024, 768), (256, 128)]
)
def test_it_keeps_files_for_itself(monkeypatch: pytest.MonkeyPatch, files: int, clients: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, files))

    assert most_connections() == clients
