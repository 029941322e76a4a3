"""What a TLS server sees of us: with curl a browser, without it Python."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from proxy.upstream.curl import CurlClient
from proxy.upstream.exchange import Request, Unreachable
from tests.certificates import make_certificate
from tests.proxy.upstream.server import SocketServer

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
GREASE = frozenset(0x0A0A + 0x1010 * step for step in range(16))
"""Values that only browsers send, and only to be ignored (RFC 8701)."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a fingerprint is made of: the cipher suites and the extensions, as offered."""

    ciphers: tuple[int, ...]
    extensions: frozenset[int]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and self-made certificate of `localhost` in one file."""
    return make_certificate(tmp_path_factory.mktemp("tls") / "localhost.pem", "localhost")


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def read_hello(record: bytes) -> Hello:
    """A ClientHello as RFC 8446 §4.1.2 lays it out, after the record's and the handshake's headers."""
    at = 5 + 4 + 2 + 32
    at += 1 + record[at]
    size = int.from_bytes(record[at : at + 2], "big")
    ciphers = record[at + 2 : at + 2 + size]
    at += 2 + size
    at += 1 + record[at]
    end = at + 2 + int.from_bytes(record[at : at + 2], "big")
    at += 2
    extensions = set()
    while at < end:
        extensions.add(int.from_bytes(record[at : at + 2], "big"))
        at += 4 + int.from_bytes(record[at + 2 : at + 4], "big")
    pairs = range(0, len(ciphers), 2)
    return Hello(
        tuple(int.from_bytes(ciphers[place : place + 2], "big") for place in pairs), frozenset(extensions)
    )


async def test_it_shows_the_fingerprint_of_a_browser(certificate: Path, tls: ssl.SSLContext) -> None:
    with SocketServer(ANSWER, tls) as server:
        curl = CurlClient("chrome", str(certificate))
        reply = await curl.open(Request("GET", server.url))
        assert reply.status == 200
        await reply.close()
        await curl.close()
        context = ssl.create_default_context(cafile=str(certificate))
        async with httpx.AsyncClient(verify=context, trust_env=False) as plain:
            assert (await plain.get(server.url)).status_code == 200
        browser, python = (read_hello(hello) for hello in server.hellos)

    assert GREASE & set(browser.ciphers)
    assert GREASE & browser.extensions
    assert not GREASE & (set(python.ciphers) | python.extensions)
    assert set(browser.ciphers) - GREASE != set(python.ciphers)
    assert browser.extensions - GREASE != python.extensions


async def test_it_sends_our_headers_over_the_browser_s_own(certificate: Path, tls: ssl.SSLContext) -> None:
    with SocketServer(ANSWER, tls) as server:
        curl = CurlClient("chrome", str(certificate))
        headers = {"user-agent": "Ours/1", "sec-ch-ua": '"Ours"', "cookie": "a=b"}
        await (await curl.open(Request("GET", server.url, headers))).close()
        await (await curl.open(Request("GET", server.url))).close()
        await curl.close()
        first, second = (request.decode().lower().split("\r\n") for request in server.requests)

    assert [line for line in first if line.startswith("user-agent:")] == ["user-agent: ours/1"]
    assert [line for line in first if line.startswith("sec-ch-ua:")] == ['sec-ch-ua: "ours"']
    assert [line for line in first if line.startswith("cookie:")] == ["cookie: a=b"]
    assert not [line for line in second if line.startswith("cookie:")]


async def test_it_trusts_no_certificate_that_nobody_vouches_for(tls: ssl.SSLContext) -> None:
    with SocketServer(ANSWER, tls) as server:
        curl = CurlClient("chrome")
        with pytest.raises(Unreachable):
            await curl.open(Request("GET", server.url))
        await curl.close()
