"""Fixtures that ask their client for something before they answer (2026-07-28: `input_required`).

No tool of Sonde does; the suite wants to see that the door and the server let it through whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]
PROMPT = "test_input_required_result_prompt"


def _form(message: str, name: str, kind: str = "string") -> Json:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sample(text: str) -> Json:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


NAME = {"user_name": _form("What is your name?", "name")}
CAPITAL = {"capital_question": _sample("What is the capital of France?")}
ROOTS = {"client_roots": {"method": "roots/list", "params": {}}}
CONFIRM = {"confirm": _form("Please confirm", "ok", "boolean")}
ALL = {**NAME, "greeting": _sample("Generate a greeting"), **ROOTS}
STEPS = (
    {"step1": _form("Step 1: What is your name?", "name")},
    {"step2": _form("Step 2: What is your favorite color?", "color")},
)
CONTEXT = {"user_context": _form("What context should the prompt use?", "context")}


def _asked(requests: Mapping[str, Json], state: str | None) -> types.InputRequiredResult:
    more = {} if state is None else {"requestState": state}
    return types.InputRequiredResult.model_validate({"inputRequests": dict(requests), **more})


def _told(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def _ask_once(
    ctx: Context, params: types.CallToolRequestParams, *, requests: Mapping[str, Json], state: str | None
) -> Any:
    """Whoever answers without what was asked for, or without the state, is asked again."""
    answers = params.input_responses or {}
    if not set(requests) <= set(answers) or params.request_state != state:
        return _asked(requests, state)
    return _told(f"{state or 'answered'}: " + " ".join(str(answers[name]) for name in requests))


async def _ask_step_by_step(ctx: Context, params: types.CallToolRequestParams) -> Any:
    done = int(params.request_state or 0)
    if params.input_responses and params.request_state is not None and done == len(STEPS):
        return _told("All steps are done.")
    return _asked(STEPS[min(done, len(STEPS) - 1)], str(min(done + 1, len(STEPS))))


async def _ask_what_the_client_can(ctx: Context, params: types.CallToolRequestParams) -> Any:
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    asked = {**(NAME if can.elicitation else {}), **(CAPITAL if can.sampling else {})}
    return _asked(asked, None) if asked else _told("The client can do neither.")


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    if not params.input_responses:
        return _asked(CONTEXT, None)
    content = {"type": "text", "text": f"Use this: {params.input_responses}"}
    return types.GetPromptResult.model_validate({"messages": [{"role": "user", "content": content}]})


TOOLS: dict[str, Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]] = {
    "test_input_required_result_elicitation": partial(_ask_once, requests=NAME, state=None),
    "test_input_required_result_sampling": partial(_ask_once, requests=CAPITAL, state=None),
    "test_input_required_result_list_roots": partial(_ask_once, requests=ROOTS, state=None),
    "test_input_required_result_request_state": partial(_ask_once, requests=CONFIRM, state="state-ok"),
    "test_input_required_result_multiple_inputs": partial(_ask_once, requests=ALL, state="all-ok"),
    "test_input_required_result_tampered_state": partial(_ask_once, requests=CONFIRM, state="whole"),
    "test_input_required_result_multi_round": _ask_step_by_step,
    "test_input_required_result_capabilities": _ask_what_the_client_can,
}
