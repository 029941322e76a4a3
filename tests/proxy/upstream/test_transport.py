"""Both clients behind the seam do the same, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from pytest_django.fixtures import Settings

from proxy.upstream import transport
from proxy.upstream.curl import MOST_WAITING, CurlClient
from proxy.upstream.exchange import Client, Lost, Reply, Request, Unreachable
from proxy.upstream.plain import PlainClient
from tests.proxy.upstream.server import HEAD, SocketServer
from tests.sandbox_server import SandboxServer, free_port

PROFILES = ("off", "chrome")


@pytest.fixture(params=PROFILES)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    made = transport.make_client(request.param)
    yield made
    await made.close()


async def whole(reply: Reply) -> bytes:
    body = b""
    while chunk := await reply.read():
        body += chunk
    await reply.close()
    return body


async def test_it_sends_what_it_is_given(client: Client) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with SocketServer(answer) as server:
        headers = {"x-one": "1", "cookie": "a=b; c=d", "content-type": "application/json"}
        request = Request("POST", f"{server.url}/ask?x=1", headers, b'{"a": "\xc3\xa9"}')
        assert await whole(await client.open(request)) == b"ok"
        sent = server.requests[0]

    head, _, body = sent.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /ask?x=1 http/1.1"
    assert {"x-one: 1", "cookie: a=b; c=d", "content-type: application/json"} <= set(lines)
    assert "content-length: 11" in lines
    assert body == b'{"a": "\xc3\xa9"}'


async def test_it_takes_nothing_of_one_request_along_to_the_next(client: Client) -> None:
    """Handles and connections are kept; the next request may be another account's."""
    answer = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: mine=1; Path=/\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    )
    requests = (
        Request("POST", "", {"x-one": "1", "cookie": "a=b"}, b"a long body of the first"),
        Request("POST", "", {"x-two": "2"}, b"short"),
        Request("POST", ""),
        Request("GET", "", {"x-three": "3"}),
        Request("PUT", "", {}, b"put"),
    )
    with SocketServer(answer, hangs_up=True) as server:
        for asked in requests:
            assert await whole(await client.open(replace(asked, url=server.url))) == b"ok"
    found = [(sent.split(b" ", 1)[0], sent.partition(b"\r\n\r\n")[2]) for sent in server.requests]
    assert found == [(asked.method.encode(), asked.body) for asked in requests]
    for sent in server.requests[1:]:
        assert b"mine=1" not in sent
        assert b"a=b" not in sent
        assert b"x-one" not in sent.lower()


async def test_it_gives_the_head_before_the_body(client: Client) -> None:
    cookies = b"Set-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\nX-Word: Yes\r\n\r\n"
    with SocketServer(HEAD + cookies) as server:
        reply = await client.open(Request("GET", server.url))

        assert reply.status == 200
        assert reply.set_cookies == ("a=1; Path=/", "b=2")
        assert reply.headers["x-word"] == "Yes"
        assert "set-cookie" not in reply.headers
        await reply.close()
        assert await asyncio.to_thread(server.was_left)


async def test_it_closes_an_answer_that_nobody_waits_for_any_more(client: Client) -> None:
    with SocketServer() as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.open(Request("POST", server.url, {}, b"{}")), 0.3)

        assert await asyncio.to_thread(server.was_left)


async def test_it_closes_an_answer_in_the_middle_of_a_silence(client: Client) -> None:
    with SocketServer(HEAD + b"\r\ndata: 1\n\n") as server:
        reply = await client.open(Request("GET", server.url))
        assert await reply.read() == b"data: 1\n\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reply.read(), 0.2)
        await reply.close()

        assert await asyncio.to_thread(server.was_left)


async def test_it_ends_the_wait_of_whoever_reads_what_is_broken_off(client: Client) -> None:
    with SocketServer(HEAD + b"\r\n") as server:
        reply = await client.open(Request("GET", server.url))
        asyncio.get_running_loop().call_later(0.1, reply.break_off)
        with pytest.raises(Lost):
            await asyncio.wait_for(reply.read(), 5)
        await reply.close()

        assert await asyncio.to_thread(server.was_left)


async def test_it_says_that_an_answer_was_cut(client: Client) -> None:
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    with SocketServer(half, hangs_up=True) as server:
        reply = await client.open(Request("GET", server.url))
        with pytest.raises(Lost):
            await whole(reply)
        await reply.close()


async def test_it_says_that_no_answer_came(client: Client) -> None:
    with SocketServer(hangs_up=True) as server, pytest.raises(Lost):
        await client.open(Request("GET", server.url))


async def test_it_says_that_nobody_is_there(client: Client) -> None:
    with pytest.raises(Unreachable):
        await client.open(Request("GET", f"http://127.0.0.1:{free_port()}"))


async def test_it_serves_many_at_once(client: Client, sandbox_process: SandboxServer) -> None:
    request = Request("GET", f"{sandbox_process.url}/health")

    async def one() -> int:
        reply = await client.open(request)
        await whole(reply)
        return reply.status

    assert await asyncio.gather(*(one() for _ in range(150))) == [200] * 150


async def test_it_follows_no_redirect(client: Client) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with SocketServer(away) as server:
        reply = await client.open(Request("GET", server.url, {"cookie": "secret=1"}))

        assert reply.status == 302
        await reply.close()


async def test_curl_stops_reading_for_a_reader_who_is_slow() -> None:
    client = CurlClient("chrome")
    size = 40 * MOST_WAITING
    with SocketServer(HEAD + b"\r\n" + b"x" * size) as server:
        reply = await client.open(Request("GET", server.url))
        await asyncio.sleep(0.5)
        waiting = server.sent
        received = 0
        while received < size and (chunk := await reply.read()):
            received += len(chunk)
        await reply.close()
    await client.close()

    assert waiting < 20 * MOST_WAITING
    assert received == size


@pytest.mark.parametrize(
    ("profile", "url", "problem"),
    [
        ("chrome", "https://www.perplexity.example", ""),
        ("firefox", "https://www.perplexity.example", ""),
        ("off", "https://www.perplexity.example", ""),
        ("netscape4", "http://127.0.0.1:1", ""),
        (
            "netscape4",
            "https://www.perplexity.example",
            "PPLX_IMPERSONATE: curl knows no browser called 'netscape4'",
        ),
    ],
)
def test_it_says_which_browser_curl_does_not_know(
    settings: Settings, profile: str, url: str, problem: str
) -> None:
    settings.PPLX_IMPERSONATE, settings.PPLX_WEB_URL = profile, url

    assert transport.profile_problem() == problem


@pytest.mark.parametrize(
    ("url", "sandbox", "profile", "kind"),
    [
        ("https://www.perplexity.example", False, "chrome", CurlClient),
        ("https://www.perplexity.example", False, "off", PlainClient),
        ("https://www.perplexity.example", True, "chrome", PlainClient),
        ("http://127.0.0.1:8899", False, "chrome", PlainClient),
        ("http://localhost:8899", False, "chrome", PlainClient),
    ],
)
async def test_it_shows_a_browser_to_the_live_upstream_only(
    settings: Settings, url: str, sandbox: bool, profile: str, kind: type[object]
) -> None:
    settings.PPLX_IMPERSONATE = profile

    client = transport.client_for(url, sandbox=sandbox)

    assert isinstance(client, kind)
    assert transport.client_for(url, sandbox=sandbox) is client
