"""The server over a toolbox, without a transport."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pytest_django.fixtures import Settings

from portal.api.tools import Tell
from portal.mcp.http import Transports
from portal.mcp.server import build_server
from portal.wire.tools import Json, ToolResult, parameters

pytestmark = pytest.mark.embedded


class Box:
    """One tool, which fails as its argument says."""

    instructions = "Break it."
    templates: tuple[Json, ...] = ()

    async def list_tools(self) -> list[Json]:
        return [{"name": "break", "description": "Breaks.", "inputSchema": parameters({})}]

    async def call(
        self, caller: object, name: str, arguments: Mapping[str, object], tell: Tell
    ) -> ToolResult:
        if name == "tell":
            for step in range(5):
                await tell(step, 5, f"step {step}")
            return ToolResult("told")
        raise RuntimeError("/work/secret pplx-abcdef123456")

    async def read(self, caller: object, uri: str) -> str | None:
        if uri.startswith("text:"):
            return "# Text"
        if uri.startswith("nothing:"):
            return None
        raise RuntimeError("/work/secret")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_tells_nobody_what_broke(mode: str) -> None:
    async with Client(build_server(Box()), mode=mode) as client:
        answer = await client.call_tool("break", {})
        assert answer.is_error
        assert "secret" not in str(answer)
        with pytest.raises(MCPError) as broken:
            await client.read_resource("broken:a")
        assert "secret" not in str(broken.value)
        with pytest.raises(MCPError) as missing:
            await client.read_resource("nothing:a")
        assert (missing.value.code, missing.value.data) == (-32602, {"uri": "nothing:a"})
        assert (await client.read_resource("text:a")).contents[0].text == "# Text"  # type: ignore[union-attr]


async def test_it_tells_of_progress_once_a_second_at_most() -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with Client(build_server(Box())) as client:
        await client.call_tool("tell", {}, progress_callback=note)
    assert seen == [0]


async def test_it_takes_the_fixtures_of_a_conformance_suite_where_it_is_told_to(settings: Settings) -> None:
    settings.SONDE_MCP_FIXTURES = "tests.mcp.fixtures"
    async with Client(build_server(Box())) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[0] == "break"
        assert {"test_simple_text", "test_error_handling"} < set(names)
        assert not (await client.call_tool("test_simple_text", {})).is_error
        assert (await client.call_tool("test_error_handling", {})).is_error
        assert (await client.call_tool("break", {})).is_error


async def test_it_says_at_once_what_keeps_it_from_serving() -> None:
    """The SDK's manager can be entered once: nobody waits for one that has ended."""
    transports = Transports()
    await transports.start()
    assert not transports.is_over()
    await transports.stop()
    assert transports.is_over()
    with pytest.raises(RuntimeError):
        await transports.start()
