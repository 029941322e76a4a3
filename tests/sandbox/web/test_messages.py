"""The ntfy server (perplexity-web §16)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.web.listener import WebVisitor

HEADERS = {
    "title": "cookie expired",
    "priority": "high",
    "tags": "warning,key",
    "actions": "view, Open, https://portal.example/health; view, More, https://portal.example/more",
}


async def test_it_keeps_a_message_with_its_headers(web: WebVisitor) -> None:
    answer = await web.client.post(
        "/ntfy/alerts_1", content="Bitte erneuern – jetzt".encode(), headers=HEADERS
    )
    assert answer.status_code == 200
    assert {"id", "time", "expires", "event", "topic", "title", "message", "priority", "tags"} <= set(
        answer.json()
    )
    [message] = (await web.control("/web/messages"))["messages"]
    assert message["message"] == "Bitte erneuern – jetzt"
    assert (message["title"], message["priority"], message["tags"]) == (
        "cookie expired",
        4,
        ["warning", "key"],
    )
    assert [action["url"] for action in message["actions"]] == [
        "https://portal.example/health",
        "https://portal.example/more",
    ]
    assert message["at"] == 1_800_000_000


@pytest.mark.parametrize("path", ["/ntfy", "/ntfy/", "/"])
async def test_it_takes_the_json_form(web: WebVisitor, path: str) -> None:
    document = {
        "topic": "t",
        "title": "Überschrift",
        "message": "m",
        "priority": 5,
        "tags": ["a"],
        "actions": [],
    }
    assert (await web.client.post(path, json=document)).json()["title"] == "Überschrift"
    [message] = (await web.control("/web/messages?topic=t"))["messages"]
    assert (message["priority"], message["tags"]) == (5, ["a"])
    assert (await web.control("/web/messages?topic=other"))["messages"] == []


@pytest.mark.parametrize(
    ("topic", "status", "code"), [("busy-1", 429, 42901), ("locked", 401, 40101), ("forbidden", 403, 40301)]
)
async def test_it_refuses_some_topics(web: WebVisitor, topic: str, status: int, code: int) -> None:
    answer = await web.client.post(f"/ntfy/{topic}", content=b"x")
    assert (answer.status_code, answer.json()["code"], answer.json()["http"]) == (status, code, status)
    assert (await web.control("/web/messages"))["messages"] == []


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/ntfy/a.b", {"content": b"x"}),
        (f"/ntfy/{'a' * 65}", {"content": b"x"}),
        ("/ntfy/a", {"content": b"x", "headers": {"priority": "9"}}),
        ("/ntfy/a", {"content": b"x", "headers": {"actions": "view, alone"}}),
        ("/ntfy", {"json": []}),
        ("/ntfy", {"json": {"message": "no topic"}}),
    ],
)
async def test_it_refuses_what_makes_no_sense(web: WebVisitor, path: str, sent: dict[str, Any]) -> None:
    assert (await web.client.post(path, **sent)).status_code == 400


async def test_it_makes_a_file_of_a_long_message(web: WebVisitor) -> None:
    answer = (await web.client.post("/ntfy/a", content=b"x" * 4097)).json()
    assert answer["attachment"]["size"] == 4097
    assert "attachment" not in (await web.client.post("/ntfy/a", content=b"x" * 4096)).json()


async def test_it_meets_faults_from_the_control_door(web: WebVisitor) -> None:
    await web.control("/settings", fail_next={"fault": "unavailable", "phase": "notify", "api": "web"})
    statuses = [(await web.client.post("/ntfy/a", content=b"x")).status_code for _ in range(2)]
    assert statuses == [503, 200]
