"""What the official conformance suite expects of any server, beside our own tools (SONDE_MCP_FIXTURES).

    SONDE_MCP_FIXTURES=tests.mcp.fixtures bin/up
    npx @modelcontextprotocol/conformance server --url http://127.0.0.1:8000/<key>/mcp

`install` puts them in front of the server's own handlers, which answer for everything else. Names and
texts are the suite's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

Context = ServerRequestContext[Any, Any]
Answer = Callable[[Context, types.CallToolRequestParams], Awaitable[types.CallToolResult]]
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


async def simple_text(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    return _text("This is a simple text response for testing.")


async def error_handling(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    result = _text("This tool intentionally returns an error for testing")
    return result.model_copy(update={"is_error": True})


async def with_progress(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
    return _text("Tool with progress executed successfully")


TOOLS: dict[str, Answer] = {
    "test_simple_text": simple_text,
    "test_error_handling": error_handling,
    "test_tool_with_progress": with_progress,
}


def install(server: Server[Any]) -> None:
    own_list = server.get_request_handler("tools/list")
    own_call = server.get_request_handler("tools/call")
    assert own_list is not None
    assert own_call is not None

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams) -> Any:
        listed: Any = await own_list.handler(ctx, params)
        tools = [types.Tool(name=name, description=name, input_schema=NOTHING) for name in TOOLS]
        return types.ListToolsResult(tools=[*listed.tools, *tools])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        answer = TOOLS.get(params.name, own_call.handler)
        return await answer(ctx, params)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
