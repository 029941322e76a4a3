"""What the MCP server serves, without the server: tools and resources, and who may use them.

A `Toolbox` knows nothing of transports, and no SDK is imported here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from portal.api.threads import run_in_database
from portal.api.tools import Tell, ToolDoor, call_tool, unknown_tool, with_choices
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.errors import NotFound
from portal.wire.tools import Json, Tool, ToolResult
from proxy import mcp_tools as chat
from research.mcp_tools import answering, deep, runs
from research.protocol import mcp_tools as research
from research.protocol.mcp_tools import REPORT_URI
from research.queries import enabled_presets

OPENS = (Scope.MCP.value, Scope.MCP_URL.value)
"""Scopes of which a key needs one to come in; the tools ask for more."""
VISIT = "sonde.visit"
"""Where the scope of an HTTP request holds its `Visit`."""
_BEFORE_ID, _, _AFTER_ID = REPORT_URI.partition("{id}")


@dataclass(frozen=True, slots=True)
class Visit:
    """Who calls. With `refusal` their limits are used up: a tool answers with it, and does nothing."""

    who: Principal
    refusal: ToolResult | None = None


DOORS: dict[str, ToolDoor] = {
    door.tool.name: door
    for door in (
        *runs.doors,
        *deep.doors,
        *chat.doors[:-1],
        *answering.doors,
        chat.doors[-1],
    )
}
"""In the order in which they are listed, which never changes (mcp-server §1)."""


class PortalToolbox:
    """The tools of this portal; `visit_of` finds out who calls. The list is the same for all of them."""

    instructions = (
        "Sonde researches questions and answers short ones. For a report: start_research, then get_research"
        " with its id when it says so. For a quick answer: perplexity_ask or perplexity_search."
    )
    templates: tuple[Json, ...] = (
        {
            "uriTemplate": REPORT_URI,
            "name": "report.md",
            "title": "Research report",
            "description": "The whole report of a completed run.",
            "mimeType": "text/markdown",
        },
    )

    def __init__(self, visit_of: Callable[[object], Awaitable[Visit]]) -> None:
        self._visit_of = visit_of

    async def list_tools(self) -> list[Json]:
        choices = await run_in_database(_presets)
        start = with_choices(research.START, "preset", choices)
        return [(start if tool.name == start.name else tool).body() for tool in _tools()]

    async def call(
        self, caller: object, name: str, arguments: Mapping[str, object], tell: Tell
    ) -> ToolResult:
        visit = await self._visit_of(caller)
        if visit.refusal is not None:
            return visit.refusal
        door = DOORS.get(name)
        if door is None:
            return unknown_tool(name, DOORS)
        return await call_tool(door, visit.who, arguments, tell)

    async def read(self, caller: object, uri: str) -> str | None:
        who = (await self._visit_of(caller)).who
        if not (uri.startswith(_BEFORE_ID) and uri.endswith(_AFTER_ID)):
            return None
        if Scope.RESEARCH.value not in who.scopes:
            return None
        try:
            return await runs.read_report(who, uri.removeprefix(_BEFORE_ID).removesuffix(_AFTER_ID))
        except NotFound:
            return None


def _tools() -> list[Tool]:
    return [door.tool for door in DOORS.values()]


def _presets() -> list[str]:
    """Every word that `preset` takes."""
    return [word for preset in enabled_presets() for word in (preset.name, *preset.aliases)]
