"""The chat tools over a real sandbox: rules, money and sources are REST's (proxy-contract §13)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from portal.api import tools
from portal.api.tools import call_tool
from portal.wire.tools import ToolResult
from proxy import mcp_tools
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, say
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
DOORS = {door.tool.name.removeprefix("perplexity_"): door for door in mcp_tools.doors}


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def use(who: Chatter, name: str, *, told: list[str] | None = None, **arguments: Any) -> ToolResult:
    async def tell(done: float, total: float | None, words: str) -> None:
        if told is not None:
            told.append(words)

    return asyncio.run(call_tool(DOORS[name], who.principal, arguments, tell))


def structured(result: ToolResult) -> dict[str, Any]:
    assert not result.is_error, result.text
    assert result.structured is not None
    return result.structured


def test_it_answers_as_rest_does(who: Chatter) -> None:
    query = f"Why? {say('It scatters[1]. ✓')}"
    told: list[str] = []
    result = use(who, "search", query=query, told=told)
    found = structured(result)
    rest = who.chat(query).json()
    assert found["answer"] == rest["choices"][0]["message"]["content"] == "It scatters. ✓"
    assert found["model"] == rest["model"] == "gpt"
    assert found["answered_by"] == rest["sonde"]["answered_by"]
    assert found["sandbox"] is True
    assert found["sources"] == rest["sonde"]["sources"] != []
    assert found["checks"] == rest["sonde"]["checks"]
    assert found["sources"][0]["url"] in result.text
    assert told


def test_it_tells_of_marks_that_lead_to_no_page(who: Chatter) -> None:
    query = f"Why? {say('It scatters[1], they say[9].')}"
    result = use(who, "ask", query=query)
    found = structured(result)
    assert found["checks"] == {"out_of_range": ["[9]"], "unattributed": []}
    assert "Marks that lead to no page: [9]" in result.text


def test_it_charges_the_price_of_the_model_and_names_its_door(who: Chatter) -> None:
    structured(use(who, "search", query="Why?"))
    assert who.spent == "0.1 0"
    assert (who.turn.door, who.turn.model, who.turn.state) == ("mcp", "gpt", ChatTurn.State.DELIVERED)
    structured(use(who, "ask", query="Why?"))
    assert who.spent == "0.1 0"
    assert who.turn.model == "auto"


@pytest.mark.parametrize(
    ("arguments", "model", "thinks"),
    [({}, "gpt", True), ({"model": "claude"}, "sonnet", True), ({"model": "sonar"}, "sonar", True)],
)
def test_it_lets_the_model_think_that_was_named(
    who: Chatter, arguments: dict[str, Any], model: str, thinks: bool
) -> None:
    assert structured(use(who, "reason", query="Why?", **arguments))["model"] == model
    assert (who.turn.model, who.turn.thinking) == (model, thinks)


def test_it_passes_sources_and_language_on(who: Chatter, sandbox: SandboxServer) -> None:
    structured(use(who, "search", query="Why?", sources="scholar, web", language="de-DE"))
    [asked] = sandbox.web_requests("/rest/sse/perplexity_ask")
    params = json.loads(asked["body"])["params"]
    assert params["sources"] == ["web", "scholar"]
    assert params["language"] == "de-DE"


@pytest.mark.parametrize(
    ("name", "arguments", "param"),
    [
        ("search", {}, "query"),
        ("search", {"query": " "}, "query"),
        ("search", {"query": 7}, "query"),
        ("search", {"query": "Why?", "sources": "web,news"}, "sources"),
        ("search", {"query": "Why?", "sources": ""}, "sources"),
        ("search", {"query": "Why?", "model": "gpt-0"}, "model"),
        ("search", {"query": "Why?", "language": ""}, "language"),
        ("ask", {"query": "Why?", "model": "gpt"}, "model"),
        ("reason", {"query": "Why?", "model": "gpt-0"}, "model"),
        ("models", {"query": "Why?"}, "query"),
    ],
)
def test_it_names_the_argument_that_is_wrong_and_costs_nothing(
    who: Chatter, name: str, arguments: dict[str, Any], param: str
) -> None:
    result = use(who, name, **arguments)
    assert result.is_error
    assert result.structured is not None
    assert result.structured["error"]["param"] == param
    assert not ChatTurn.objects.exists()


def test_it_refuses_whoever_has_no_credit(who: Chatter) -> None:
    result = use(chatter(credits=0), "search", query="Why?")
    assert result.is_error
    assert result.structured is not None
    assert result.structured["error"]["code"] == "insufficient_quota"
    assert not ChatTurn.objects.exists()


def test_it_refuses_a_model_above_the_pool_s_tier(who: Chatter, pool: WebAccount) -> None:
    WebAccount.objects.update(tier="pro")
    result = use(who, "search", query="Why?", model="opus")
    assert result.is_error
    assert "tier" in result.text


def test_it_needs_the_scope_of_chat(who: Chatter) -> None:
    bare = replace(who.principal, scopes=frozenset({"mcp", "research"}))

    async def silent(done: float, total: float | None, words: str) -> None:
        """Nobody wants to know."""

    result = asyncio.run(call_tool(DOORS["ask"], bare, {"query": "Why?"}, silent))
    assert result.structured is not None
    assert result.structured["error"]["code"] == "forbidden"


def test_it_charges_nothing_for_an_answer_that_takes_longer_than_a_call_may(
    who: Chatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "LONGEST_CALL", 1.0)
    result = use(who, "search", query="Why? [sandbox:duration=20]")
    assert result.is_error
    assert "longer than a tool call may" in result.text
    assert "start_research" in result.text
    assert who.spent == "0 0"
    assert who.turn.state == ChatTurn.State.CANCELLED


def test_it_tells_a_failure_without_what_is_behind_it(who: Chatter) -> None:
    result = use(who, "search", query="Why? [sandbox:server-error]")
    assert result.is_error
    assert "Traceback" not in result.text
    assert who.spent == "0 0"


def test_it_lists_the_models_that_may_be_asked(who: Chatter, settings: Settings) -> None:
    ChatModel.objects.filter(pk="sonar").update(enabled=False)
    result = use(who, "models")
    found = structured(result)
    ids = [model["id"] for model in found["models"]]
    assert found["default"] == settings.DEFAULT_MODEL
    assert found["account_type"] == "max"
    assert "gpt" in ids
    assert "sonar" not in ids
    assert "- gpt (GPT-5.6 Terra), default" in result.text
    assert "pplx" not in result.text
    assert Decimal(who.spent.split()[0]) == 0
