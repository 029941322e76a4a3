"""Sources in = sources out, counted over the bytes that the upstream really sends, in every shape."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from portal.services import network
from portal.wire.urls import linkable, normalise
from proxy.protocol.session import TOKEN
from research.backends.web import WebBackend
from research.protocol.outcome import Finished, Options, Order, Running, Submitted
from research.protocol.report import build_report
from tests.proxy.accounts import account
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

SHAPES = ("chunks", "patches", "workflow", "text")
MARKERS = ("", "[sandbox:urls-odd]", "[sandbox:legacy-sources]", "[sandbox:hostile-sources]")


def finished(question: str) -> Finished:
    backend = WebBackend(sandbox=True)
    taken = network.call(backend.submit(Order(question, Options(), {}, str(uuid4()))))
    assert isinstance(taken, Submitted)
    until = time.monotonic() + 20
    while isinstance(seen := network.call(backend.poll(taken.upstream_id)), Running):
        assert time.monotonic() < until
    assert isinstance(seen, Finished)
    return seen


def stored_bytes(sandbox: SandboxServer, entry: str) -> str:
    """What the upstream tells of this entry to a client that is not ours."""
    cookie = f"{TOKEN}=sandbox-max-tester"
    path = f"{sandbox.url}/rest/sse/perplexity_ask/reconnect/{entry}"
    return httpx.post(path, json={"reconnectInitialSnapshot": True}, headers={"cookie": cookie}).text


def pages(value: Any) -> Iterator[str]:
    """Every address of a web result or of a page that was read, wherever it stands, also in JSON in text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            yield from pages(json.loads(value))
        except ValueError:
            return
    elif isinstance(value, list):
        for item in value:
            yield from pages(item)
    elif isinstance(value, dict):
        if isinstance(value.get("url"), str) and ("name" in value or "snippet" in value):
            yield value["url"]
        yield from (url for url in value.get("urls", ()) if isinstance(url, str))
        for member in value.values():
            yield from pages(member)


def told(body: str) -> set[str]:
    frames = [line[5:] for line in body.splitlines() if line.startswith("data:")]
    return {url.strip() for frame in frames for url in pages(json.loads(frame)) if url.strip()}


@pytest.mark.parametrize("shape", SHAPES)
def test_it_delivers_every_source_that_the_upstream_told(sandbox: SandboxServer, shape: str) -> None:
    account(parallel_limit=8)
    for marker in MARKERS:
        done = finished(f"How do tides work? [sandbox:shape={shape}] {marker}")
        sent = told(stored_bytes(sandbox, sandbox.web_entries()[0]["id"]))
        assert {page.url for page in done.found} | {page.url for page in done.fetched} == sent, marker
        report = build_report(done)
        distinct = {normalise(url) or url for url in sent}
        assert len(report.sources) == len(distinct), marker
        safe = {normalise(url) for url in sent if linkable(url)}
        assert {normalise(source.url) for source in report.sources if source.url} == safe, marker
        assert all(mark.sources or mark.problem for mark in report.marks), marker
