"""What agents see of us (MCP): tools, and what a call of one gives. Shared by every door that has tools.

Names and members are the protocol's, as JSON has them (mcp-server §5). No SDK is needed for it, so that
the texts are the same wherever they are served from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.wire.errors import BadRequest, Problem
from portal.wire.fields import Fields, is_plain_name

Json = dict[str, Any]

ADVICE: Mapping[str, str] = {
    "idempotency_key_reused": "Use a new idempotency_key for another question; repeat the old one only"
    " with the arguments it was first used with.",
    "insufficient_quota": "Ask your user for credits before you try again.",
    "not_found": "Check the id: it is the whole word that the start gave you.",
    "rate_limit_exceeded": "Wait before the next call.",
}
"""What to do next, by the code of an error."""
_CODE_OF_STATUS = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    422: "invalid_request",
    429: "rate_limit_exceeded",
    503: "unavailable",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """`parameters` and `result` are JSON Schemas of objects (draft 2020-12); without `result` a call gives
    text alone. The four hints are the protocol's annotations."""

    name: str
    title: str
    description: str
    parameters: Json
    result: Json | None = None
    reads_only: bool = False
    destroys: bool = False
    idempotent: bool = False
    open_world: bool = False

    def body(self) -> Json:
        """An entry of `tools/list`."""
        schema = {} if self.result is None else {"outputSchema": _or_error(self.result)}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.parameters,
            **schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads_only,
                "destructiveHint": self.destroys,
                "idempotentHint": self.idempotent,
                "openWorldHint": self.open_world,
            },
        }


@dataclass(frozen=True, slots=True)
class Link:
    """A resource that belongs to an answer and is read by its address."""

    uri: str
    name: str
    title: str
    mime_type: str = "text/markdown"

    def body(self) -> Json:
        named = {"uri": self.uri, "name": self.name, "title": self.title, "mimeType": self.mime_type}
        return {"type": "resource_link", **named}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`text` is for the model, `structured` for programs: both say the same."""

    text: str
    structured: Json | None = None
    links: tuple[Link, ...] = ()
    is_error: bool = False

    def body(self) -> Json:
        """The result of `tools/call`. Clients reject one without content (agent-api §9)."""
        content = [{"type": "text", "text": self.text}, *(link.body() for link in self.links)]
        structured = {} if self.structured is None else {"structuredContent": self.structured}
        return {"content": content, **structured, "isError": self.is_error}


def parameters(properties: Json, *, required: tuple[str, ...] = ()) -> Json:
    """The schema of a tool's arguments: these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def members(properties: Json, *, sometimes: Json | None = None) -> Json:
    """The schema of an answer that always has all of `properties`."""
    return {
        "type": "object",
        "properties": {**properties, **(sometimes or {})},
        "required": list(properties),
    }


def or_none(kind: str, **more: Any) -> Json:
    """The schema of a member that may be null. A list of types says the same, and some clients cannot
    read it."""
    return {"anyOf": [{"type": kind}, {"type": "null"}], **more}


def _or_error(result: Json) -> Json:
    """Also an error: TypeScript clients hold failed calls against the schema, and would hide their words."""
    whole = {name: value for name, value in result.items() if name != "required"}
    is_error = {"required": ["error"], "maxProperties": 1}
    return {**whole, "anyOf": [{"required": result.get("required", [])}, is_error]}


def refused(text: str, *, code: str = "invalid_request", param: str | None = None) -> ToolResult:
    """A call that did not do what it was asked."""
    return ToolResult(
        f"Error: {text}", {"error": {"code": code, "message": text, "param": param}}, is_error=True
    )


def refused_by(problem: Problem) -> ToolResult:
    """The same problem as over HTTP, with what to do next."""
    code = problem.code or _CODE_OF_STATUS.get(problem.status, "server_error")
    wait = problem.headers.get("Retry-After", "")
    said = [problem.message, f"Try again in {wait} seconds." if wait else ADVICE.get(code, "")]
    return refused(" ".join(filter(None, said)), code=code, param=problem.param)


def check_names(tool: Tool, arguments: Fields) -> None:
    """Raises BadRequest for an argument that the tool does not have: a typing error must not be dropped."""
    known = tool.parameters["properties"]
    for name in arguments.values:
        if name not in known:
            named = name if is_plain_name(name) else "an argument"
            offered = ", ".join(known) or "none"
            raise BadRequest(f"{named} is no argument of this tool. There are: {offered}.", param=named)
