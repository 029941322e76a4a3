"""Uploads over a real socket: what the sandbox could only show in minutes."""

from __future__ import annotations

import asyncio

import pytest

from portal.services.upstreams import WebUpstream
from proxy.protocol.session import TOKEN
from proxy.protocol.verdicts import UpstreamFailed
from proxy.protocol.web_uploads import Reading
from proxy.upstream import attachments
from proxy.upstream.web import Session
from tests.proxy.upstream.server import HEAD, SocketServer


async def as_it_is(session: Session, set_cookies: tuple[str, ...]) -> Session:
    return session


async def test_it_waits_for_no_reading_longer_than_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attachments.READING_SECONDS == 60
    monkeypatch.setattr(attachments, "READING_SECONDS", 0.1)
    with SocketServer(HEAD + b"\r\n: waiting\n\n") as server:
        upstream = WebUpstream(server.url, server.url, sandbox=True)
        session = Session(0, "", "free", {TOKEN: "sandbox-a"}, 1, upstream)

        async with asyncio.timeout(5):
            with pytest.raises(UpstreamFailed, match="broke off") as caught:
                await attachments._read(session, Reading("f1", "stored"), as_it_is)

        assert caught.value.param == "input"
        assert await asyncio.to_thread(server.was_left)
