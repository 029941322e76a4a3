"""`tools` and `tool_choice` of a Responses request (proxy-contract §8.1).

Web search is always on, so its tool has no effect. What a function tool must look like is for the
function bridge; other tools are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from portal.wire.fields import Fields
from proxy.protocol.response_object import Json

MOST_TOOLS = 128
WEB_SEARCH = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
_UNUSED = ("filters", "search_context_size", "user_location", "external_web_access")


@dataclass(frozen=True, slots=True)
class Tools:
    """`functions` as given; `echo` as the answer repeats them."""

    functions: tuple[Json, ...]
    echo: list[Json]
    parallel: bool
    ignored: tuple[str, ...]


def read_tools(body: Fields) -> Tools:
    """Raises BadRequest with param tools, tool_choice or parallel_tool_calls."""
    tools = [_tool(body, at, value) for at, value in enumerate(body.items("tools", most=MOST_TOOLS))]
    functions = tuple(tool for tool in tools if tool["type"] == "function")
    choice = body.values.get("tool_choice")
    if not functions and choice not in (None, "auto"):
        raise body.refuse("tool_choice", "can only be auto without function tools")
    return Tools(
        functions,
        [_echoed(tool) for tool in tools],
        body.flag("parallel_tool_calls") is not False,
        tuple(
            f"tools[{at}].{name}"
            for at, tool in enumerate(tools)
            for name in _UNUSED
            if tool["type"] != "function" and tool.get(name) is not None
        ),
    )


def _tool(body: Fields, at: int, value: object) -> Json:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind not in ("function", *WEB_SEARCH):
        raise body.refuse("tools", f"[{at}] is not supported: tools are functions and web_search")
    return value


def _echoed(tool: Json) -> Json:
    """OpenAI's types want every member of a function to be there."""
    if tool["type"] != "function":
        return tool
    return {"parameters": None, "strict": None, **tool}
