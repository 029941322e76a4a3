"""Fetching what users name: redirects, name servers that lie, servers that do not stop.

The server is on this machine; the guards of these tests take it, and only it, for the public internet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from portal.http import Guard, NotPublic
from portal.http_streams import StreamConnectFailed, guarded_session
from portal.wire.errors import Problem
from proxy.upstream.fetching import Fetched, fetch
from tests.certificates import make_certificate
from tests.proxy.upstream.site import HERE, HOST, Site, guard_of, serving

PNG = b"\x89PNG\r\n\x1a\n" + bytes(1000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "files.pem", HOST)


@pytest_asyncio.fixture
async def site(certificate: Path) -> AsyncIterator[Site]:
    async with serving(certificate) as site:
        yield site


@pytest.fixture
def guard(site: Site, certificate: Path) -> Guard:
    return guard_of(site, certificate)


async def refusal(url: str, guard: Guard, at_most: int = 10_000) -> tuple[int, str | None]:
    with pytest.raises(Problem) as caught:
        await fetch(url, at_most, guard)
    return caught.value.status, caught.value.param


def content_of(fetched: Fetched) -> bytes:
    return fetched.content.open().read()


async def test_it_fetches_a_file_without_saying_who_asks(site: Site, guard: Guard) -> None:
    fetched = await fetch(
        site.gives("/a/b.png?x=1", PNG, content_type="image/png", set_cookie="a=b"), 10_000, guard
    )

    assert content_of(fetched) == PNG
    assert (fetched.content_type, fetched.name) == ("image/png", "b.png")
    [head] = site.asked
    assert "cookie" not in head.lower()
    assert "authorization" not in head.lower()


async def test_it_follows_three_redirects_and_not_a_fourth(site: Site, guard: Guard) -> None:
    site.gives("/3", PNG)
    for number in (2, 1, 0, -1):
        site.gives(f"/{number}", status=302, location=f"/{number + 1}")

    assert content_of(await fetch(f"https://{HOST}/0", 10_000, guard)) == PNG
    assert await refusal(f"https://{HOST}/-1", guard) == (502, "input")


@pytest.mark.parametrize(
    "location",
    [
        "http://files.example.org/a",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/",
        "https://[::ffff:10.0.0.1]/",
        "https://user:pass@files.example.org/",
        "https://files.example.org:8443/",
        "file:///etc/passwd",
        "https://[",
    ],
)
async def test_it_looks_at_every_address_it_is_sent_to(site: Site, guard: Guard, location: str) -> None:
    url = site.gives("/a", status=301, location=location)

    status, _ = await refusal(url, guard)

    assert status in (400, 502)
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.2"],
        ["10.0.0.1"],
        ["::1"],
        ["::ffff:192.168.0.1"],
        ["64:ff9b::7f00:2"],
        ["fe80::1%1"],
        [HERE, "10.0.0.1"],
        ["10.0.0.1", HERE],
        ["nonsense"],
        [],
    ],
)
async def test_it_goes_nowhere_when_one_address_of_a_name_is_not_public(
    site: Site, certificate: Path, addresses: list[str]
) -> None:
    guard = guard_of(site, certificate, lambda _: addresses)

    assert await refusal(site.gives("/a", PNG), guard) == (400, "input")
    assert site.asked == []


async def test_it_believes_no_name_server_that_changes_its_mind(site: Site, certificate: Path) -> None:
    """The name is asked for once each time it is connected to, and what it said then is where it goes."""
    asked: list[str] = []

    def names(host: str) -> Sequence[str]:
        asked.append(host)
        return [HERE] if len(asked) == 1 else ["127.0.0.2"]

    guard = guard_of(site, certificate, names)
    site.gives("/b", PNG)
    url = site.gives("/a", status=302, location="/b")

    assert await refusal(url, guard) == (400, "input")
    assert (len(site.asked), asked) == (1, [HOST, HOST])


async def test_it_looks_at_addresses_that_need_no_name_server_when_it_connects(site: Site) -> None:
    async with guarded_session(Guard()) as session:
        with pytest.raises(StreamConnectFailed) as caught:
            await session.get(f"http://{HERE}:{site.port}/")

    assert isinstance(getattr(caught.value, "os_error", None), NotPublic)
    assert site.asked == []


async def test_it_stops_at_the_first_byte_too_many(site: Site, guard: Guard) -> None:
    assert await refusal(site.gives("/a", PNG), guard, at_most=len(PNG) - 1) == (413, "input")
    site.answers["/b"] = b"HTTP/1.1 200 Fine\r\nconnection: close\r\n\r\n" + bytes(1_000_000)
    assert await refusal(f"https://{HOST}/b", guard, at_most=100) == (413, "input")
    assert content_of(await fetch(site.gives("/c", PNG), len(PNG), guard)) == PNG


async def test_it_unpacks_nothing(site: Site, guard: Guard) -> None:
    url = site.gives("/a", b"\x1f\x8b" + bytes(100), content_encoding="gzip")

    assert await refusal(url, guard) == (502, "input")


@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
async def test_it_takes_only_a_whole_answer(site: Site, guard: Guard, status: int) -> None:
    assert await refusal(site.gives("/a", PNG if status > 304 else b"", status), guard) == (502, "input")


async def test_it_takes_no_empty_file_and_no_half_of_one(site: Site, guard: Guard) -> None:
    assert await refusal(site.gives("/a"), guard) == (502, "input")
    site.answers["/b"] = b"HTTP/1.1 200 Fine\r\ncontent-length: 500\r\n\r\nhalf"
    assert await refusal(f"https://{HOST}/b", guard) == (502, "input")
    site.answers["/c"] = b"no HTTP at all\r\n\r\n"
    assert await refusal(f"https://{HOST}/c", guard) == (502, "input")


async def test_it_trusts_no_server_that_cannot_prove_its_name(site: Site, guard: Guard) -> None:
    site.gives("/a", PNG)

    assert await refusal("https://stranger.example.org/a", guard) == (502, "input")
    assert site.asked == []


async def test_it_says_so_when_nobody_is_there(site: Site, certificate: Path) -> None:
    def nobody(host: str) -> Sequence[str]:
        raise OSError("no such name")

    assert await refusal(f"https://{HOST}/", guard_of(site, certificate, nobody)) == (502, "input")
