"""How a tool is called, whatever transport brings the call (mcp-server §5).

A tool's work is thin: arguments in, one or two services, a result out. Nothing that must outlive its
caller may live in it, for a call ends when its client leaves (mcp-server §4.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from portal.api.auth import require_scope
from portal.api.handler import problem_of
from portal.services.principal import Principal
from portal.wire.errors import Forbidden
from portal.wire.fields import Fields, is_plain_name
from portal.wire.tools import Json, Tool, ToolResult, check_names, refused, refused_by

LONGEST_CALL = 48.0
"""Seconds: clients give up after sixty (mcp-deep-research §2), SPEC 6 wants it under fifty."""
TOO_LONG = "This took longer than a tool call may. Nothing was charged for it."

Tell = Callable[[float, float | None, str], Awaitable[None]]
"""Reports progress to the caller: how much is done, of how much where that is known, and words."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    who: Principal
    arguments: Fields
    tell: Tell


@dataclass(frozen=True, slots=True)
class ToolDoor:
    """A tool that a key with `scope` opens. `when_too_long` tells the model what to do instead."""

    tool: Tool
    scope: str
    serve: Callable[[ToolCall], Awaitable[ToolResult]]
    when_too_long: str = "Try again."


class Toolbox(Protocol):
    """`caller` is whatever the transport knows of who calls: the HTTP request, or nothing."""

    instructions: str
    templates: tuple[Json, ...]

    async def list_tools(self) -> list[Json]: ...

    async def call(
        self, caller: object, name: str, arguments: Mapping[str, object], tell: Tell
    ) -> ToolResult: ...

    async def read(self, caller: object, uri: str) -> str | None:
        """The text of a resource; None for one that the caller does not have."""


async def call_tool(
    door: ToolDoor, who: Principal, arguments: Mapping[str, object], tell: Tell
) -> ToolResult:
    """What the door gives, or a result that tells what went wrong; never raises but for cancellation."""
    try:
        _check_scope(who, door.scope)
        fields = Fields(arguments)
        check_names(door.tool, fields)
        async with asyncio.timeout(LONGEST_CALL):
            return await door.serve(ToolCall(who, fields, tell))
    except TimeoutError:
        return refused(f"{TOO_LONG} {door.when_too_long}", code="timeout")
    except Exception as error:  # whatever it is, it becomes an answer
        return refused_by(problem_of(error, who.request_id))


def unknown_tool(name: str, doors: Mapping[str, ToolDoor]) -> ToolResult:
    """A result, not a protocol error: models read it (SPEC 10.25)."""
    called = f" {name}" if is_plain_name(name) else ""
    return refused(f"There is no tool{called}. The tools are: {', '.join(doors)}.", code="not_found")


def with_choices(tool: Tool, name: str, choices: list[str]) -> Tool:
    """`tool` with the values that its parameter `name` takes at present."""
    properties = tool.parameters["properties"]
    changed = {**properties, name: {**properties[name], "enum": choices}}
    return replace(tool, parameters={**tool.parameters, "properties": changed})


def _check_scope(who: Principal, scope: str) -> None:
    try:
        require_scope(who, scope)
    except Forbidden:
        raise Forbidden(
            f"This key lacks the scope '{scope}' that the tool needs: your user can make a key that has it."
        ) from None
