"""The chat tools (proxy-contract §13): one question through the engine that serves every chat.

Prompt rules, quota, tier, cleaning, sources and money are REST's, because the code is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from django.conf import settings

from portal.api.threads import run_in_database
from portal.api.tools import ToolCall, ToolDoor
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.fields import Fields
from portal.wire.tools import Json, ToolResult
from proxy.protocol import mcp_tools
from proxy.protocol.chat import parse_chat
from proxy.protocol.chat_stream import ChatFold
from proxy.protocol.delta import Done, Reasoning
from proxy.protocol.model_table import visible
from proxy.services.catalog import all_models, pool_tier
from proxy.services.chat import Question, prepare_chat
from proxy.services.relay import Relay

DOOR = "mcp"
TOO_LONG = "Ask a shorter question, use perplexity_ask, or start_research for what takes long."


async def search(call: ToolCall) -> ToolResult:
    return await _answer(call, mcp_tools.search_body, with_notices=True)


async def ask(call: ToolCall) -> ToolResult:
    return await _answer(call, mcp_tools.ask_body, with_notices=False)


async def reason(call: ToolCall) -> ToolResult:
    return await _answer(call, mcp_tools.reason_body, with_notices=True)


async def models(call: ToolCall) -> ToolResult:
    return await run_in_database(_models)


async def _answer(call: ToolCall, body: Callable[[Fields], Json], *, with_notices: bool) -> ToolResult:
    question = await run_in_database(partial(_prepare, call.who, body(call.arguments)))
    # Without a plan it opens the turn itself, and settles it whenever the caller leaves.
    relay = Relay(question, None, streams=False)
    fold, steps = ChatFold(), 0
    async with aclosing(relay.deltas()) as reads:
        async for deltas in reads:
            fold.add(deltas)
            for line in (delta.line for delta in deltas if isinstance(delta, Reasoning)):
                steps += 1
                await call.tell(steps, None, line)
            if isinstance(deltas[-1], Done):
                return _told(relay, fold, deltas[-1], with_notices=with_notices)
    raise RuntimeError("an answer without an end")


def _prepare(who: Principal, body: Json) -> Question:
    return prepare_chat(who, parse_chat(body, settings.DEFAULT_MODEL), DOOR)


def _told(relay: Relay, fold: ChatFold, done: Done, *, with_notices: bool) -> ToolResult:
    return mcp_tools.answered(
        "".join(fold.text).strip(),
        done,
        model=relay.question.model.id,
        answered_by=relay.settled.answered_by,
        notices=relay.settled.notices if with_notices else (),
        sandbox=relay.plan is not None and relay.plan.session.upstream.sandbox,
    )


def _models() -> ToolResult:
    tier = pool_tier()
    return mcp_tools.models_text(visible(all_models(), tier), settings.DEFAULT_MODEL, tier)


CHAT = Scope.CHAT.value
doors = (
    ToolDoor(mcp_tools.SEARCH, CHAT, search, TOO_LONG),
    ToolDoor(mcp_tools.ASK, CHAT, ask, TOO_LONG),
    ToolDoor(mcp_tools.REASON, CHAT, reason, TOO_LONG),
    ToolDoor(mcp_tools.MODELS, CHAT, models),
)
