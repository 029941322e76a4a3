"""The clients that speak to upstreams, against a real server."""

from __future__ import annotations

import pytest

from portal.http import async_client
from portal.wire.version import VERSION
from tests.portal.listener import Listener


async def test_it_says_who_asks() -> None:
    with Listener() as upstream:
        async with async_client(upstream.url, headers={"Authorization": "Bearer pplx-x"}) as client:
            await client.get("/v1/models")

    assert upstream.requests == ["GET /v1/models"]
    assert upstream.headers[0]["user-agent"] == f"sonde/{VERSION}"
    assert upstream.headers[0]["authorization"] == "Bearer pplx-x"


async def test_it_follows_no_redirect() -> None:
    with Listener(status=302, headers={"Location": "/elsewhere"}) as upstream:
        async with async_client(upstream.url) as client:
            answer = await client.get("/here")

    assert answer.status_code == 302
    assert upstream.requests == ["GET /here"]


async def test_it_ignores_the_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Listener() as upstream:
        async with async_client(upstream.url) as client:
            assert (await client.get("/")).status_code == 200
