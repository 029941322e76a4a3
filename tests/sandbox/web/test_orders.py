"""The web's part of the control door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox.app import Stamp, build_app
from tests.sandbox.web.listener import ASK, WebVisitor, body

ME = "sandbox-max-tester"


async def test_it_changes_an_account_while_it_runs(web: WebVisitor) -> None:
    assert (await web.session()).json()["user"]
    await web.control("/web/account", account=ME, standing="expired")
    assert (await web.session()).json() == {}
    await web.control("/web/account", account=ME, standing="blocked")
    assert (await web.session()).status_code == 403
    await web.control("/web/account", account=ME, standing="active", tier="pro", flags=["busy"])
    assert (await web.session()).json()["user"]["subscription_tier"] == "pro"
    assert (await web.ask("Why?")).response.status_code == 429
    await web.control("/web/account", account=ME, flags=[], slots=0)
    assert (await web.ask("Why?")).response.headers["retry-after"] == "1"
    await web.control("/web/account", account=ME, slots=None)
    assert (await web.ask("Why?")).ended


async def test_it_sets_what_is_left(web: WebVisitor) -> None:
    await web.control("/web/account", account=ME, remaining_pro=3, remaining_research=0)
    found = await web.quota()
    assert (found["remaining_pro"], found["remaining_research"]) == (3, 0)
    answer = await web.ask("Why?", model_preference="pplx_alpha")
    assert "upsell_information" in answer.frames[0]


@pytest.mark.parametrize(
    "order",
    [
        [],
        {},
        {"account": "somebody"},
        {"account": "sandbox-a.1"},
        {"account": ME, "colour": 1},
        {"account": ME, "standing": "tall"},
        {"account": ME, "tier": "gold"},
        {"account": ME, "flags": ["loud"]},
        {"account": ME, "flags": "busy"},
        {"account": ME, "slots": -1},
        {"account": ME, "slots": True},
        {"account": ME, "retired": "gpt55"},
        {"account": ME, "substitutes": {"a": 1}},
        {"account": ME, "forgotten": "500"},
        {"account": ME, "remaining_pro": "3"},
    ],
    ids=str,
)
async def test_it_refuses_orders_that_make_no_sense(web: WebVisitor, order: Any) -> None:
    assert (await web.client.post("/_sandbox/web/account", json=order)).status_code == 400


async def test_it_logs_every_request_newest_first(web: WebVisitor) -> None:
    await web.session()
    await web.ask("Why?")
    await web.quota()
    found = (await web.control("/web/requests"))["requests"]
    assert [line["path"] for line in found] == ["/rest/rate-limit/all", ASK, "/api/auth/session"]
    assert {line["status"] for line in found} == {200}
    assert {line["ending"] for line in found} == {"done"}
    assert found[1]["entry"] == (await web.control("/web/entries"))["entries"][0]["id"]
    assert found[1]["events"] > 10
    older = (await web.control(f"/web/requests?before={found[1]['seq']}"))["requests"]
    assert [line["path"] for line in older] == ["/api/auth/session"]
    rest = (await web.control("/web/requests?path=/rest/*"))["requests"]
    assert len(rest) == 2


async def test_it_counts_asks_by_question_and_in_all(web: WebVisitor) -> None:
    for question in ("Why?", "Why?", "Why? [sandbox:server-error]"):
        await web.ask(question)
    rows = (await web.control("/counts"))["submissions"]
    assert [(row["api"], row["question"], row["received"], row["accepted"]) for row in rows] == [
        ("web", "Why?", 2, 2),
        ("web", "Why? [sandbox:server-error]", 1, 0),
    ]
    [account] = (await web.control("/web"))["accounts"]
    assert (account["name"], account["asks"], account["open"]) == (ME, 2, 0)


@pytest.mark.parametrize(
    ("call", "method", "path"),
    [
        ("session", "GET", "/api/auth/session"),
        ("submit", "POST", ASK),
        ("quota", "GET", "/rest/rate-limit/all"),
        ("models", "GET", "/rest/models/config?config_schema=v1&version=2.18"),
        ("upload", "POST", "/rest/uploads/create_upload_url?version=2.18"),
        ("storage", "POST", "/_storage/s3/"),
        ("process", "POST", "/rest/sse/attachment_processing/subscribe"),
        ("poll", "POST", f"{ASK}/reconnect/x"),
        ("cancel", "POST", "/rest/sse/perplexity_terminate"),
        ("delete", "DELETE", "/rest/thread/delete_thread_by_entry_uuid"),
        ("solve", "POST", "/v1"),
    ],
)
async def test_it_fails_the_next_call_of_a_kind(web: WebVisitor, call: str, method: str, path: str) -> None:
    await web.control("/settings", fail_next={"fault": "edge-error", "phase": call, "api": "web"})
    sent = body("Why?") if call == "submit" else {}
    statuses = [(await web.send(method, path, json=sent)).status_code for _ in range(2)]
    assert statuses[0] == 522 != statuses[1]


async def test_it_keeps_a_fault_that_the_api_does_not_know_for_the_other(web: WebVisitor) -> None:
    await web.control("/settings", fail_next={"fault": "no-credit"})
    assert (await web.session()).status_code == 200
    headers = {"authorization": "Bearer pplx-a"}
    answer = await web.client.get("/v1/async/sonar", headers=headers)
    assert answer.status_code == 402


async def test_it_forgets_all_of_the_web_on_reset(web: WebVisitor) -> None:
    await web.as_("sandbox-rotating-a").session()
    await web.ask("Why?")
    await web.client.post("/ntfy/a", content=b"x")
    await web.client.post("/_sandbox/reset", json={})
    assert await web.control("/web") == {"open": 0, "peak": 0, "accounts": []}
    for path, name in (("requests", "requests"), ("entries", "entries"), ("messages", "messages")):
        assert (await web.control(f"/web/{path}"))[name] == []


async def test_it_opens_to_this_machine_alone(web_app: Stamp) -> None:
    transport = httpx.ASGITransport(web_app, client=("10.1.2.3", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
        assert (await client.get("/_sandbox/web")).status_code == 403
        assert (await client.post("/_sandbox/web/account", json={"account": ME})).status_code == 403


@pytest.mark.parametrize(
    ("seconds", "given", "environment", "found"),
    [
        (None, None, None, 3),
        (1, None, None, 1),
        (20, None, None, 3),
        (1, None, "2.5", 2.5),
        (1, 0.5, "2.5", 0.5),
    ],
)
def test_it_knows_how_long_a_chat_answer_takes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None,
    given: float | None,
    environment: str | None,
    found: float,
) -> None:
    monkeypatch.delenv("SANDBOX_SECONDS", raising=False)
    monkeypatch.delenv("SANDBOX_CHAT_SECONDS", raising=False)
    if environment is not None:
        monkeypatch.setenv("SANDBOX_CHAT_SECONDS", environment)
    app = build_app(tmp_path / "s.sqlite3", seconds=seconds, chat_seconds=given)
    assert app.world.chat_seconds == found
    app.close()
