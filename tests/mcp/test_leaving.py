"""Clients that leave: the wait ends, the run goes on; and keys that doors share (mcp-server §6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mcp.client import Client

from tests.mcp.clients import ACCEPT, Keys, call, connected
from tests.mcp.test_gateway import heads, message_of, modern
from tests.running_server import RunningServer

pytestmark = pytest.mark.embedded
TEN = 10


@pytest.fixture
async def http(portal: RunningServer, keys: Keys) -> Any:
    headers = {"Authorization": f"Bearer {keys.plain}", **ACCEPT}
    async with httpx.AsyncClient(base_url=portal.url, headers=headers, timeout=60) as client:
        yield client


async def used(http: httpx.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await http.post("/mcp", json=call("tools/call", name=name, arguments=arguments))
    return dict(message_of(answer)["result"])


async def ended(http: httpx.AsyncClient, run: str) -> str:
    """The status of a run when it has one for good."""
    for _ in range(600):
        status = str((await http.get(f"/v1/agent/{run}")).json()["status"])
        if status not in ("queued", "in_progress"):
            return status
        await asyncio.sleep(0.1)
    raise AssertionError("it has not ended")


async def test_it_is_one_run_and_one_charge_from_ten_doors_of_each_kind(http: httpx.AsyncClient) -> None:
    before = (await http.get("/api/account")).json()["credits"]
    key, question = uuid4().hex, f"Why {uuid4().hex}?"
    started = {"question": question, "preset": "30m", "idempotency_key": key}
    created = {"input": question, "preset": "high", "idempotency_key": key}
    answers = await asyncio.gather(
        *(used(http, "start_research", **started) for _ in range(TEN)),
        *(http.post("/v1/agent", json=created) for _ in range(TEN)),
    )
    ids = {one["structuredContent"]["id"] if isinstance(one, dict) else one.json()["id"] for one in answers}
    assert len(ids) == 1
    other = await used(http, "start_research", **{**started, "preset": "60m"})
    assert other["structuredContent"]["error"]["code"] == "idempotency_key_reused"
    [run] = ids
    assert await ended(http, run) == "completed"
    after = (await http.get("/api/account")).json()["credits"]
    assert float(before["balance"]) - float(after["balance"]) == 2


@pytest.mark.parametrize("is_modern", [False, True])
async def test_it_ends_the_wait_and_never_the_run_when_its_client_leaves(
    http: httpx.AsyncClient, is_modern: bool
) -> None:
    question = "Why? [sandbox:duration=2]"
    arguments = {"question": question, "preset": "2m", "idempotency_key": uuid4().hex}
    run = (await used(http, "start_research", **arguments))["structuredContent"]["id"]
    waits = {"name": "pplx_deep_research_check", "arguments": {"job_id": run, "wait_seconds": 40}}
    body = modern("tools/call", **waits) if is_modern else call("tools/call", **waits)
    headers = heads("tools/call", waits["name"]) if is_modern else {}  # type: ignore[arg-type]
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/mcp", json=body, headers=headers, timeout=0.5)
    assert await ended(http, run) == "completed"


@pytest.mark.parametrize("is_modern", [False, True])
async def test_it_leaves_the_upstream_of_a_chat_whose_client_leaves_before_the_first_word(
    http: httpx.AsyncClient, portal: RunningServer, is_modern: bool
) -> None:
    query = f"Why {uuid4().hex}? [sandbox:web.first-frame=20]"
    asks = {"name": "perplexity_ask", "arguments": {"query": query}}
    body = modern("tools/call", **asks) if is_modern else call("tools/call", **asks)
    headers = heads("tools/call", asks["name"]) if is_modern else {}  # type: ignore[arg-type]
    asking = asyncio.create_task(http.post("/mcp", json=body, headers=headers))
    await until(lambda: asked(portal, query), "it was not asked")

    asking.cancel()
    before = time.monotonic()
    await until(lambda: asked(portal, query) == ["left"], "the upstream was not left")

    assert time.monotonic() - before < 2


def asked(portal: RunningServer, query: str) -> list[str | None]:
    """How each ask of this query ended."""
    with httpx.Client(base_url=portal.sandbox_url) as sandbox:
        found = sandbox.get("/_sandbox/web/requests", params={"path": "/rest/sse/perplexity_ask"}).json()
    return [one["ending"] for one in found["requests"] if query in str(one)]


async def until(is_so: Callable[[], object], problem: str) -> None:
    for _ in range(300):
        if await asyncio.to_thread(is_so):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(problem)


async def test_it_stops_a_wait_that_its_client_cancels(portal: RunningServer, keys: Keys) -> None:
    async with connected(portal, keys, "sse", "legacy") as client:
        arguments = {"question": "Why? [sandbox:duration=20]", "preset": "2m", "idempotency_key": uuid4().hex}
        run = ((await client.call_tool("start_research", arguments)).structured_content or {})["id"]
        wait = asyncio.create_task(
            client.call_tool("pplx_deep_research_check", {"job_id": run, "wait_seconds": 40})
        )
        await asyncio.sleep(0.5)
        wait.cancel()
        told = await still(client, run)
        assert told["status"] == "in_progress"
        await client.call_tool("cancel_research", {"id": run})


async def still(client: Client, run: str) -> dict[str, Any]:
    return (await client.call_tool("get_research", {"id": run})).structured_content or {}
