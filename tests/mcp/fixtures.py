"""What the official conformance suite expects of any server, beside our own tools (SONDE_MCP_FIXTURES).

    SONDE_MCP_FIXTURES=tests.mcp.fixtures bin/up
    npx @modelcontextprotocol/conformance server --url http://127.0.0.1:8000/<key>/mcp

`install` puts them in front of the server's own handlers, which answer for everything else. Names and
texts are the suite's. What asks its client for more is in `fixtures_asking`.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.mcp import fixtures_asking

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
Answer = Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]
NOTHING: Json = {"type": "object", "properties": {}}
DIALECT: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED: Json = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
SCHEMAS = {"json_schema_2020_12_tool": DIALECT, "test_custom_headers": MIRRORED}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
"""One red pixel."""
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
"""A WAV file of no length."""

IMAGE: Json = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
CONTENTS: dict[str, list[Json]] = {
    "test_simple_text": [{"type": "text", "text": "This is a simple text response for testing."}],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        {
            "type": "resource",
            "resource": {
                "uri": "test://embedded-resource",
                "mimeType": "text/plain",
                "text": "This is an embedded resource content.",
            },
        }
    ],
    "test_multiple_content_types": [
        {"type": "text", "text": "Multiple content types test:"},
        IMAGE,
        {
            "type": "resource",
            "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": '{"test":"data","value":123}',
            },
        },
    ],
    "json_schema_2020_12_tool": [{"type": "text", "text": "It is only listed."}],
    "test_custom_headers": [{"type": "text", "text": "The header fits the argument."}],
}
"""What the tools give that always give the same."""
RESOURCES: dict[str, Json] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PICTURE},
}
TEMPLATE = "test://template/{id}/data"
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    fixtures_asking.PROMPT: (),
}
"""Each with the names of its arguments."""


async def error_handling(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    said = {"type": "text", "text": "This tool intentionally returns an error for testing"}
    return types.CallToolResult.model_validate({"content": [said], "isError": True})


async def with_progress(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
    return _told("Tool with progress executed successfully")


async def with_logging(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
    return _told("Tool with logging executed successfully")


async def missing_capability(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """It needs a client that samples."""
    if ctx.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
        return _told("The client samples.")
    lacks: Json = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client must offer sampling.", lacks)


TOOLS: dict[str, Answer] = {
    "test_error_handling": error_handling,
    "test_tool_with_progress": with_progress,
    "test_tool_with_logging": with_logging,
    "test_missing_capability": missing_capability,
    **fixtures_asking.TOOLS,
}


def install(server: Server[Any]) -> None:
    fixtures = Fixtures(server)
    paged = types.PaginatedRequestParams
    server.add_request_handler("tools/list", paged, fixtures.list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, fixtures.call_tool)
    server.add_request_handler("resources/list", paged, list_resources)
    server.add_request_handler("resources/templates/list", paged, fixtures.list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, fixtures.read_resource)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, agree)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, agree)
    server.add_request_handler("prompts/list", paged, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, agree)
    server.get_tool_input_schema = SCHEMAS.get
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name)
    )


class Fixtures:
    """Ours in front of the server's own."""

    def __init__(self, server: Server[Any]) -> None:
        self._own = {
            method: _handler_of(server, method)
            for method in ("tools/list", "tools/call", "resources/templates/list", "resources/read")
        }

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams) -> Any:
        listed = await self._own["tools/list"](ctx, params)
        ours = [
            types.Tool(name=name, description=name, input_schema=SCHEMAS.get(name, NOTHING))
            for name in (*CONTENTS, *TOOLS)
        ]
        return types.ListToolsResult(tools=[*listed.tools, *ours])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name in CONTENTS:
            return types.CallToolResult.model_validate({"content": CONTENTS[params.name]})
        return await TOOLS.get(params.name, self._own["tools/call"])(ctx, params)

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams) -> Any:
        listed = await self._own["resources/templates/list"](ctx, params)
        ours = types.ResourceTemplate(name="template", uri_template=TEMPLATE, mime_type="application/json")
        return types.ListResourceTemplatesResult(resource_templates=[*listed.resource_templates, ours])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        before, _, after = TEMPLATE.partition("{id}")
        if uri.startswith(before) and uri.endswith(after):
            name = uri.removeprefix(before).removesuffix(after)
            found = {"mimeType": "application/json", "text": f'{{"id":"{name}","templateTest":true}}'}
        elif uri in RESOURCES:
            found = RESOURCES[uri]
        else:
            return await self._own["resources/read"](ctx, params)
        return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **found}]})


async def list_resources(ctx: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
    listed = [
        {"uri": uri, "name": uri.rpartition("/")[2], "mimeType": found["mimeType"]}
        for uri, found in RESOURCES.items()
    ]
    return types.ListResourcesResult.model_validate({"resources": listed})


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
    listed = [
        {
            "name": name,
            "description": name,
            "arguments": [
                {"name": argument, "description": argument, "required": True} for argument in names
            ],
        }
        for name, names in PROMPTS.items()
    ]
    return types.ListPromptsResult.model_validate({"prompts": listed})


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    if params.name == fixtures_asking.PROMPT:
        return await fixtures_asking.get_prompt(ctx, params)
    if params.name not in PROMPTS:
        raise MCPError(types.INVALID_PARAMS, "There is no such prompt.")
    said = _messages(params.name, params.arguments or {})
    return types.GetPromptResult.model_validate(
        {"messages": [{"role": "user", "content": content} for content in said]}
    )


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def agree(ctx: Context, params: types.RequestParams) -> types.EmptyResult:
    """Nothing is kept between two requests: agreed, and forgotten."""
    return types.EmptyResult()


def _messages(name: str, arguments: dict[str, str]) -> list[Json]:
    if name == "test_prompt_with_image":
        return [IMAGE, {"type": "text", "text": "Please analyze the image above."}]
    if name == "test_prompt_with_embedded_resource":
        text = "Embedded resource content for testing."
        embedded = {"uri": arguments["resourceUri"], "mimeType": "text/plain", "text": text}
        return [
            {"type": "resource", "resource": embedded},
            {"type": "text", "text": "Please process the embedded resource above."},
        ]
    if name == "test_prompt_with_arguments":
        one, other = arguments["arg1"], arguments["arg2"]
        return [{"type": "text", "text": f"Prompt with arguments: arg1='{one}', arg2='{other}'"}]
    return [{"type": "text", "text": "This is a simple prompt for testing."}]


def _handler_of(server: Server[Any], method: str) -> Any:
    entry = server.get_request_handler(method)
    assert entry is not None, method
    return entry.handler


def _told(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
