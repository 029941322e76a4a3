"""The MCP server itself: the official SDK's, over a toolbox (docs/decisions/0023).

The SDK is large: whoever needs it imports this module, and nobody else has to.
"""

from __future__ import annotations

import logging
import re
import time
from importlib import import_module
from typing import Any

import mcp_types as types
from django.conf import settings
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from portal.api.handler import problem_of
from portal.api.tools import Tell, Toolbox
from portal.wire.tools import refused_by
from portal.wire.version import VERSION

log = logging.getLogger(__name__)

NAME = "sonde"
TOLD_EVERY = 1.0
"""Seconds between two reports of progress at least (mcp-server §5)."""
LIST_FRESH_MS = 300_000
METHOD = re.compile(r"[A-Za-z0-9_/.$-]{1,100}", re.ASCII)

Context = ServerRequestContext[Any, Any]


def build_server(box: Toolbox) -> Server[Any]:
    """A server with all protocol revisions. It keeps nothing between two calls."""
    serving = Serving(box)
    server: Server[Any] = Server(
        NAME,
        title="Sonde",
        version=VERSION,
        instructions=box.instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=LIST_FRESH_MS)},
        # No parameter is mirrored into a header.
        get_tool_input_schema=lambda name: None,
        on_list_tools=serving.list_tools,
        on_call_tool=serving.call_tool,
        on_list_resources=serving.list_resources,
        on_list_resource_templates=serving.list_templates,
        on_read_resource=serving.read_resource,
        on_list_prompts=serving.list_prompts,
    )
    server.middleware.append(_name_the_method)
    if settings.SONDE_MCP_FIXTURES:
        import_module(settings.SONDE_MCP_FIXTURES).install(server)
    return server


class Serving:
    """The SDK's handlers. Nothing that they raise reaches a client unless they mean it to."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        try:
            return types.ListToolsResult.model_validate({"tools": await self._box.list_tools()})
        except Exception as error:  # it would reach the client word for word
            raise _protocol_error(error) from None

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            called = await self._box.call(ctx.request, params.name, params.arguments or {}, _teller(ctx))
        except Exception as error:  # it would reach the client word for word
            called = refused_by(problem_of(error, ""))
        return types.CallToolResult.model_validate(called.body())

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": self._box.templates})

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await self._box.read(ctx.request, uri)
        except Exception as error:  # it would reach the client word for word
            raise _protocol_error(error) from None
        if text is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        content = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[])


async def _name_the_method(ctx: Context, call_next: CallNext) -> HandlerResult:
    """`Method not found: foo/bar`, with the name that the SDK leaves out (mcp-deep-research §5)."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        named = ctx.method if METHOD.fullmatch(ctx.method) else "?"
        raise MCPError(error.code, f"Method not found: {named}", error.data) from None


def _protocol_error(error: Exception) -> MCPError:
    return MCPError(types.INTERNAL_ERROR, problem_of(error, "").message)


def _teller(ctx: Context) -> Tell:
    """Progress for a client that asked for it: never backwards, and not more often than `TOLD_EVERY`."""
    last = -TOLD_EVERY

    async def tell(done: float, total: float | None, words: str) -> None:
        nonlocal last
        if time.monotonic() - last >= TOLD_EVERY:
            last = time.monotonic()
            await ctx.session.report_progress(done, total, words)

    return tell
