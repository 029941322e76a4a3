"""The newest Python client on every transport and in every family of revisions (mcp-server §3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.clients import HTTP, MODES, STDIO, Keys, connected
from tests.running_server import RunningServer

pytestmark = pytest.mark.embedded
NAMES = [
    "start_research",
    "get_research",
    "list_research",
    "cancel_research",
    "pplx_deep_research_start",
    "pplx_deep_research_check",
    "pplx_deep_research_list",
    "perplexity_search",
    "perplexity_ask",
    "perplexity_reason",
    "perplexity_research",
    "perplexity_models",
]
PATIENCE = 30.0


def everywhere() -> Iterator[tuple[str, str]]:
    yield from ((transport, mode) for transport in HTTP for mode in MODES)
    yield from ((transport, mode) for transport in STDIO for mode in MODES[:2])


async def started(client: Client, question: str = "Why is the sky blue?", **more: Any) -> str:
    arguments = {"question": question, "preset": "2m", "idempotency_key": uuid4().hex, **more}
    answer = await client.call_tool("start_research", arguments)
    assert not answer.is_error, answer
    return str((answer.structured_content or {})["id"])


async def ended(client: Client, run: str) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE
    while True:
        answer = await client.call_tool("get_research", {"id": run})
        told = answer.structured_content or {}
        if told["status"] != "in_progress":
            return told
        assert time.monotonic() < until, f"it is still {told['status']}"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(("transport", "mode"), list(everywhere()))
async def test_it_serves_every_transport_in_every_family(
    portal: RunningServer, keys: Keys, transport: str, mode: str
) -> None:
    async with connected(portal, keys, transport, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
        # One run for all of them: what they are to see is the same.
        run = await started(client, idempotency_key="everywhere")
        told = await ended(client, run)
        assert (told["status"], told["page"], told["sandbox"]) == ("completed", 1, True)
        read = await client.read_resource(f"research://{run}/report.md")
        assert told["text"] == read.contents[0].text  # type: ignore[union-attr]
        wrong = await client.call_tool("get_research", {"id": "resp_none"})
        assert wrong.is_error
        with pytest.raises(MCPError) as refusal:
            await client.read_resource("research://resp_none/report.md")
        assert refusal.value.code == -32602


async def test_it_keeps_to_the_schemas_that_it_announces(portal: RunningServer, keys: Keys) -> None:
    async with connected(portal, keys) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        checks = {
            name: Draft202012Validator(tool.output_schema)
            for name, tool in tools.items()
            if tool.output_schema
        }

        async def told(name: str, **arguments: Any) -> dict[str, Any]:
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer
            checks[name].validate(answer.structured_content)
            return answer.structured_content or {}

        ends = {
            "": "completed",
            "[sandbox:failed]": "failed",
            "[sandbox:incomplete]": "incomplete",
            "[sandbox:duration=60]": "cancelled",
        }
        for marker, end in ends.items():
            arguments = {"question": f"Why? {marker}", "preset": "2m", "idempotency_key": uuid4().hex}
            run = (await told("start_research", **arguments))["id"]
            await told("get_research", id=run)
            if "duration" in marker:
                await told("cancel_research", id=run)
            assert (await ended(client, run))["status"] == end
            await told("get_research", id=run)
            await told("start_research", **arguments)
        await told("list_research", limit=3)
        await told("perplexity_models")
        for name in ("perplexity_search", "perplexity_ask", "perplexity_reason"):
            await told(name, query="Why?")
        assert all(tool.title and tool.description and tool.annotations for tool in tools.values())
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools.values())


async def test_it_tells_progress_that_only_rises(portal: RunningServer, keys: Keys) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with connected(portal, keys) as client:
        run = await started(client, "Why? [sandbox:duration=2]")
        arguments = {"job_id": run, "wait_seconds": 20}
        answer = await client.call_tool("pplx_deep_research_check", arguments, progress_callback=note)
    assert not answer.is_error
    assert len(seen) >= 2
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert all("researching" in (words or "") or "waiting" in (words or "") for _, _, words in seen)
