"""What visitors do over HTTP. Each function is one visit and gives its outcome in a word."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from bench.mixed.visitor import LONG, OF_RUNS, SILENT, Broken, Visitor

CHAT = "/v1/chat/completions"
ENDS = ("response.completed", "response.failed", "response.incomplete", "response.cancelled")
OVER = ("completed", "failed", "incomplete", "cancelled")
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
TOO_LATE = re.compile(rb"already terminal|cannot be cancelled")
FILE_BYTES = 300_000


def chat_body(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "gpt", "messages": [{"role": "user", "content": question}], **more}


# Chats.


async def plain(visitor: Visitor) -> str:
    _, question = visitor.question(*visitor.trouble())
    answer = await visitor.send("POST", CHAT, json=chat_body(question))
    visitor.notes.told_text += 1
    return "ok" if answer.json()["choices"][0]["message"]["content"] else _wrong(visitor, "no text")


async def stream(visitor: Visitor) -> str:
    _, question = visitor.question(*visitor.trouble())
    return await _read_stream(visitor, chat_body(question, stream=True), "", 0)


async def left_midway(visitor: Visitor) -> str:
    tag, question = visitor.question(*LONG)
    return await _read_stream(visitor, chat_body(question, stream=True), tag, visitor.chance.randint(1, 12))


async def _read_stream(visitor: Visitor, body: dict[str, Any], tag: str, leave_after: int) -> str:
    """To the end, or, with a tag, until so many pieces of text came."""
    texts = 0
    async with (
        visitor.client.stream("POST", CHAT, json=body, extensions=visitor.extensions) as answer,
        aclosing(visitor.records(answer)) as told,
    ):
        async for record in told:
            if record == "[DONE]":
                return "ok"
            chunk = json.loads(record)
            if "error" in chunk:
                visitor.judge_late(chunk["error"])
                return f"late {chunk['error'].get('message', '')[:60]}"
            if any(choice["delta"].get("content") for choice in chunk["choices"]):
                texts += 1
                visitor.notes.told_text += texts == 1
            if tag and texts >= leave_after:
                visitor.leave(tag)
                return "left"
    return _wrong(visitor, "a stream that merely stops")


async def left_early(visitor: Visitor) -> str:
    """Before the first word, of a stream or a plain answer."""
    tag, question = visitor.question(*SILENT)
    body = chat_body(question, stream=visitor.chance.random() < 0.5)
    asked = visitor.send("POST", CHAT, json=body, extensions=visitor.extensions)
    answer = await visitor.leave_after(visitor.chance.uniform(0.05, 4), tag, asked)
    return "ok" if answer else "left"


# Responses.


async def background(visitor: Visitor) -> str:
    _, question = visitor.question(*visitor.trouble())
    body = {"model": "gpt", "input": question, "background": True}
    made = (await visitor.send("POST", "/v1/responses", json=body)).json()
    visitor.notes.promised.add(made["id"])
    if visitor.chance.random() < 0.3:
        await asyncio.sleep(visitor.chance.uniform(0, 2))
        await _cancel(visitor, f"/v1/responses/{made['id']}/cancel")
    return await _poll(visitor, f"/v1/responses/{made['id']}")


async def _poll(visitor: Visitor, path: str) -> str:
    """Until it has ended. An outage on the way ends nothing."""
    async with asyncio.timeout(300):
        while True:
            try:
                status = (await visitor.send("GET", path)).json()["status"]
            except Broken:
                status = ""
            if status in OVER:
                return str(status)
            await asyncio.sleep(0.7)


async def resumed(visitor: Visitor) -> str:
    """A chat in the background, followed, left, and followed on to its end."""
    _, question = visitor.question(*visitor.trouble())
    body = {"model": "gpt", "input": question, "background": True, "stream": True}
    return await _follow(visitor, body, visitor.chance.randint(1, 8))


async def run_resumed(visitor: Visitor) -> str:
    _, question = visitor.question(*OF_RUNS)
    body = {"model": "sonar-deep-research", "input": question, "preset": "2m", "stream": True}
    return await _follow(visitor, body, visitor.chance.randint(1, 4))


async def _follow(visitor: Visitor, body: dict[str, Any], events: int) -> str:
    after, identity = -1, ""
    async with (
        visitor.client.stream("POST", "/v1/responses", json=body) as answer,
        aclosing(visitor.records(answer)) as told,
    ):
        async for record in told:
            event = json.loads(record)
            after = _next(visitor, event, after)
            identity = identity or event.get("response", {}).get("id", "")
            if event["type"] in ENDS:
                return str(event["type"])
            if after >= events:
                break
    if not identity:
        return _wrong(visitor, "a stream without an id")
    visitor.notes.promised.add(identity)
    await asyncio.sleep(visitor.chance.uniform(0, 3))
    return await _follow_on(visitor, identity, after)


async def _follow_on(visitor: Visitor, identity: str, after: int) -> str:
    """As an SDK does that takes up a stream as often as it breaks."""
    async with asyncio.timeout(300):
        while True:
            path = f"/v1/responses/{identity}?stream=true&starting_after={after}"
            try:
                async with (
                    visitor.client.stream("GET", path) as answer,
                    aclosing(visitor.records(answer)) as told,
                ):
                    async for record in told:
                        event = json.loads(record)
                        if event["type"] == "error":
                            break
                        after = _next(visitor, event, after)
                        if event["type"] in ENDS:
                            return str(event["type"])
            except Broken:
                pass
            await asyncio.sleep(1)


def _next(visitor: Visitor, event: dict[str, Any], after: int) -> int:
    number = int(event["sequence_number"])
    if number != after + 1:
        _wrong(visitor, f"event {number} follows {after}")
    return number


# Research.


async def research(visitor: Visitor) -> str:
    _, question = visitor.question(*OF_RUNS)
    key = uuid4().hex
    body = {"input": question, "preset": "2m", "idempotency_key": key}
    run = (await visitor.send("POST", "/v1/agent", json=body)).json()["id"]
    visitor.notes.promised.add(run)
    if visitor.chance.random() < 0.3:
        await asyncio.sleep(visitor.chance.uniform(0, 4))
        await _cancel(visitor, f"/v1/agent/{run}/cancel")
    return await _poll(visitor, f"/v1/agent/{run}")


async def _cancel(visitor: Visitor, path: str) -> None:
    answer = await visitor.client.post(path)
    if answer.status_code != 400 or not TOO_LATE.search(answer.content):
        visitor.judge(answer, answer.content)


# Files, agents, pages.


async def files(visitor: Visitor) -> str:
    content = visitor.chance.randbytes(FILE_BYTES)
    sent = {"file": ("tides.bin", content, "application/octet-stream")}
    made = (await visitor.send("POST", "/v1/files", files=sent, data={"purpose": "user_data"})).json()["id"]
    back = await visitor.send("GET", f"/v1/files/{made}/content")
    if back.content != content:
        _wrong(visitor, "a file that came back otherwise")
    await visitor.send("DELETE", f"/v1/files/{made}")
    return "ok"


async def agent(visitor: Visitor) -> str:
    """A chat through MCP, which some leave in the middle, or a run."""
    tag, question = visitor.question(*LONG, "", "", "")
    if visitor.chance.random() < 0.5:
        arguments = {"question": question, "preset": "2m", "idempotency_key": uuid4().hex}
        made = await _call(visitor, "start_research", arguments)
        run = (made.get("structuredContent") or {}).get("id")
        return await _poll(visitor, f"/v1/agent/{run}") if run else "refused"
    arguments = {"query": question}
    told = await visitor.leave_after(
        visitor.chance.uniform(1, 8), tag, _call(visitor, "perplexity_ask", arguments)
    )
    if told is None:
        return "left"
    return "refused" if told.get("isError") else "ok"


async def _call(visitor: Visitor, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await visitor.client.post("/mcp", json=body, headers=MCP, extensions=visitor.extensions)
    if answer.status_code >= 300:
        visitor.judge(answer, answer.content)
    text = answer.text
    if "data:" in text:
        text = [line for line in text.splitlines() if line.startswith("data:")][-1][5:]
    told = json.loads(text)
    if "result" not in told:
        _wrong(visitor, f"{told.get('error')}")
        raise Broken("error")
    return dict(told["result"])


async def page(visitor: Visitor) -> str:
    """A browser: the chat's page, a question, and looks at its answer until it has ended."""
    cookies = {"Cookie": f"sessionid={visitor.session}"}
    shown = await _page(visitor, "GET", "/chat", cookies)
    token = shown.headers.get("set-cookie", "").partition("csrftoken=")[2].partition(";")[0]
    _, question = visitor.question(*visitor.trouble())
    browser = {
        "Cookie": f"sessionid={visitor.session}; csrftoken={token}",
        "Origin": str(visitor.client.base_url).rstrip("/"),
        "Accept": "application/json",
        "X-CSRFToken": token,
    }
    form = {"form": str(uuid4()), "message": question, "model": "gpt"}
    asked = (await _page(visitor, "POST", "/chat", browser, data=form)).json()
    return await _look(visitor, asked, browser)


async def _look(visitor: Visitor, asked: dict[str, Any], browser: dict[str, str]) -> str:
    async with asyncio.timeout(300):
        while True:
            await asyncio.sleep(1)
            try:
                now = (await _page(visitor, "GET", f"{asked['url']}/live?after=", browser)).json()
            except Broken:
                continue
            if not now["live"]:
                return "ok"


async def _page(visitor: Visitor, method: str, path: str, headers: dict[str, str], **more: Any) -> Any:
    answer = await visitor.client.request(method, path, headers=headers, **more)
    if answer.status_code in (429, 503):
        raise Broken(str(answer.status_code))
    if answer.status_code >= 300:
        _wrong(visitor, f"{method} {path.partition('?')[0][:12]} {answer.status_code} {answer.text[:150]!r}")
        raise Broken(str(answer.status_code))
    return answer


def _wrong(visitor: Visitor, what: str) -> str:
    visitor.notes.wrong(f"{visitor.kind}: {what}")
    return "wrong"
