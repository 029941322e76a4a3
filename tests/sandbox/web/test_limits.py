"""Counters, catalogue, FlareSolverr (perplexity-web §11, §13)."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx
import pytest

from tests.sandbox.web.listener import NAME, WebVisitor, is_challenge

ALL, STATUS = "/rest/rate-limit/all", "/rest/rate-limit/status"
CONFIG = "/rest/models/config?config_schema=v1&version=2.18&source=default"


async def test_it_tells_what_is_left(web: WebVisitor) -> None:
    found = await web.as_("sandbox-left187-pro").quota()
    assert (found["remaining_pro"], found["remaining_research"]) == (187, 187)
    assert set(found) == {
        "remaining_pro", "remaining_research", "remaining_labs", "remaining_agentic_research", "free_queries",
        "model_specific_limits", "sources",
    }  # fmt: skip
    assert found["sources"]["source_to_limit"]["web"] == {"monthly_limit": None, "remaining": None}


@pytest.mark.parametrize("token", ["", "sandbox-expired-max", "nobodys"])
async def test_it_tells_those_who_are_not_logged_in_of_zeros(web: WebVisitor, token: str) -> None:
    answer = await web.as_(token).send("GET", ALL)
    assert answer.status_code == 200
    assert (answer.json()["remaining_pro"], answer.json()["remaining_research"]) == (0, 0)


async def test_it_tells_what_is_available_by_mode(web: WebVisitor) -> None:
    found = (await web.as_("sandbox-left2-pro").send("GET", STATUS)).json()
    assert found["modes"]["pro_search"] == {
        "available": True,
        "remaining_detail": {"kind": "exact", "remaining": 2},
    }
    assert not found["modes"]["agentic_research"]["available"]
    assert not (await web.as_("sandbox-limited").send("GET", STATUS)).json()["modes"]["research"]["available"]


async def test_it_puts_cloudflare_before_the_counters_of_a_gated_account(web: WebVisitor) -> None:
    gated = web.as_("sandbox-gated-max")
    for path in (ALL, STATUS):
        assert is_challenge(await gated.send("GET", path))
    assert (await gated.session()).json()["user"]
    assert (await gated.ask("Why?")).ended


async def test_it_lists_its_models_and_spends_no_query(web: WebVisitor) -> None:
    before = await web.quota()
    found = (await web.send("GET", CONFIG)).json()
    assert set(found) == {"models", "config", "default_models", "agentic_research_compare_models"}
    assert found["models"]["claude48opusthinking"]["label"] == "Claude Opus 4.8 Thinking"
    assert found["models"]["pplx_alpha"]["mode"] == "research"
    line = next(line for line in found["config"] if line["label"] == "Grok 4.5")
    assert (line["non_reasoning_model"], line["reasoning_model"]) == ("grok45low", "grok45medium")
    assert line["subscription_tier"] == "pro"
    always = next(line for line in found["config"] if line["label"] == "Kimi K3")
    assert (always["non_reasoning_model"], always["reasoning_model"]) == (None, "kimik3")
    assert found["default_models"]["search"] == "pplx_pro"
    assert await web.quota() == before
    assert (await web.control("/web/entries"))["entries"] == []


async def test_it_lists_what_was_retired_and_added(web: WebVisitor) -> None:
    orders = {"retired": ["gpt56_terra"], "added": ["gpt57_terra"]}
    await web.control("/web/account", account="sandbox-max-tester", **orders)
    found = (await web.send("GET", CONFIG)).json()
    assert "gpt56_terra" not in found["models"]
    assert "gpt57_terra" in found["models"]
    preferences = [line["non_reasoning_model"] for line in found["config"]]
    assert "gpt57_terra" in preferences
    assert "gpt56_terra" not in preferences


@pytest.mark.parametrize(
    "path",
    [
        f"{ALL}?version=2.17",
        "/rest/models/config?config_schema=v1",
        "/rest/models/config?config_schema=v1&version=2.17",
        "/rest/models/config?version=2.18",
    ],
)
async def test_it_refuses_a_stale_version_in_the_address(web: WebVisitor, path: str) -> None:
    assert (await web.send("GET", path)).status_code == 400


# FlareSolverr.


async def solve(web: WebVisitor, token: str, **given: Any) -> httpx.Response:
    cookies = [{"name": NAME, "value": token, "domain": ".perplexity.ai", "path": "/", "secure": True}]
    document = {"cmd": "request.get", "url": f"https://www.perplexity.ai{ALL}", "cookies": cookies, **given}
    document = {name: value for name, value in document.items() if value is not None}
    return await web.client.post("/v1", json={"maxTimeout": 20000, **document})


def shown(answer: httpx.Response) -> Any:
    """The JSON inside the page that the browser made of it."""
    page = answer.json()["solution"]["response"]
    inside = re.search(r"<pre[^>]*>(.*?)</pre>", page, re.S)
    assert inside is not None
    assert "&quot;" in inside[1]
    return json.loads(html.unescape(inside[1]))


async def test_it_reads_the_counters_through_a_browser(web: WebVisitor) -> None:
    answer = await solve(web, "sandbox-left33-gated-pro")
    found = answer.json()
    assert (found["status"], found["message"]) == ("ok", "Challenge solved!")
    assert (found["solution"]["status"], found["solution"]["headers"]) == (200, {})
    assert found["version"].startswith("3.")
    assert shown(answer)["remaining_pro"] == 33
    assert (await solve(web, "sandbox-pro")).json()["message"] == "Challenge not detected!"


async def test_it_gets_a_blocked_account_through(web: WebVisitor) -> None:
    assert is_challenge(await web.as_("sandbox-blocked-left4").send("GET", ALL))
    assert (await solve(web, "sandbox-blocked-left4")).json()["message"] == "Challenge solved!"


async def test_it_fails_with_500_when_the_challenge_is_not_solved(web: WebVisitor) -> None:
    answer = await solve(web, "sandbox-unsolved-pro")
    assert answer.status_code == 500
    assert answer.json()["status"] == "error"
    assert answer.json()["message"] == "Error: Error solving the challenge. Timeout after 20.0 seconds."


async def test_it_can_say_ok_and_show_the_challenge(web: WebVisitor) -> None:
    found = (await solve(web, "sandbox-halfsolved-pro")).json()
    assert (found["status"], found["solution"]["status"]) == ("ok", 200)
    assert "challenge-platform" in found["solution"]["response"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cmd": None}, "'cmd' is mandatory"),
        ({"cmd": "dance"}, "is invalid"),
        ({"url": None}, "'url' is mandatory"),
    ],
)
async def test_it_wants_a_command_and_an_address(web: WebVisitor, given: dict[str, Any], words: str) -> None:
    answer = await solve(web, "sandbox-pro", **given)
    assert answer.status_code == 500
    assert words in answer.json()["message"]


async def test_it_shows_a_page_for_any_other_address(web: WebVisitor) -> None:
    found = (await solve(web, "sandbox-pro", url="https://www.perplexity.ai/other")).json()
    assert "<pre" not in found["solution"]["response"]


async def test_it_says_that_the_browser_is_ready(web: WebVisitor) -> None:
    assert set((await web.client.get("/")).json()) == {"msg", "version", "userAgent"}
    assert (await web.client.get("/health")).json() == {"status": "ok"}
