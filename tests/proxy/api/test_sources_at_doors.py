"""Sources in = sources out at every door of chat, counted over the upstream's own bytes (SPEC 4, 10.9).

Each mark is a citation of the page that it means, or stands in `sonde.checks`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from portal.api.tools import call_tool
from proxy import mcp_tools
from proxy.protocol.session import TOKEN
from tests import told
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, events, say
from tests.proxy.responding import answer, ask, checked, get, in_background, public, replay, work
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

SHAPES = ("chunks", "patches", "workflow", "text")
MARKED = "Tides follow the moon[1]. The sun helps[3][4].\n\n- Nobody[9] measured it[2]."
MARKERS = ("", f"{say(MARKED)} [sandbox:hostile-sources]", f"{say(MARKED)} [sandbox:urls-odd]")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """What a door gave. `cited` are the addresses of its citations; None where marks stay in the text."""

    text: str
    sources: list[str]
    cited: list[str] | None
    checks: Json


def given(text: str, sonde: Json, annotations: list[Json]) -> Given:
    cited = [note.get("url_citation", note)["url"] for note in annotations]
    return Given(text, [source["url"] for source in sonde["sources"]], cited, sonde["checks"])


def chat(who: Chatter, question: str) -> Given:
    body = who.chat(question).json()
    message = body["choices"][0]["message"]
    return given(message["content"], body["sonde"], message["annotations"])


def chat_stream(who: Chatter, question: str) -> Given:
    chunks = [chunk for chunk in events(who.chat(question, stream=True).content) if isinstance(chunk, dict)]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    text = "".join(delta.get("content") or "" for delta in deltas)
    notes = [note for delta in deltas for note in delta.get("annotations", ())]
    return given(text, chunks[-1]["sonde"], notes)


def of_response(whole: Json) -> Given:
    [part] = [part for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    return given(part["text"], whole["sonde"], part["annotations"])


def responses(who: Chatter, question: str) -> Given:
    made = answer(who, question)
    assert of_response(get(who, made["id"]).json()) == of_response(made)
    return of_response(made)


def responses_stream(who: Chatter, question: str) -> Given:
    return of_response(checked(ask(who, question, stream=True).content)[-1]["response"])


def responses_background(who: Chatter, question: str) -> Given:
    row = work(in_background(who, question))
    whole: Json = get(who, public(row)).json()
    assert checked(replay(who, public(row)))[-1]["response"]["sonde"] == whole["sonde"]
    return of_response(whole)


def of_sonar(body: Json) -> Given:
    listed = [result["url"] for result in body["search_results"]]
    assert body["citations"] == listed
    return Given(body["choices"][0]["message"]["content"], listed, None, body["sonde"]["checks"])


def sonar(who: Chatter, question: str, path: str = "/v1/sonar", **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": question}]
    return who.client.post(path, json={"model": "sonar-pro", "messages": messages, **fields})


def sonar_full(who: Chatter, question: str) -> Given:
    return of_sonar(events(sonar(who, question, stream=True).content)[-2])


def sonar_concise(who: Chatter, question: str) -> Given:
    return of_sonar(events(sonar(who, question, stream=True, stream_mode="concise").content)[-2])


def mcp(who: Chatter, question: str) -> Given:
    """It hands on text without citations: what it gives of marks is the list of the pages."""
    [door] = [door for door in mcp_tools.doors if door.tool.name == "perplexity_search"]

    async def tell(done: float, total: float | None, words: str) -> None:
        pass

    found = asyncio.run(call_tool(door, who.principal, {"query": question}, tell)).structured
    assert found is not None
    return Given(found["answer"], [source["url"] for source in found["sources"]], [], {})


DOORS: dict[str, Callable[[Chatter, str], Given]] = {
    "chat": chat,
    "chat stream": chat_stream,
    "responses": responses,
    "responses stream": responses_stream,
    "responses background": responses_background,
    "sonar": lambda who, question: of_sonar(sonar(who, question).json()),
    "chat/completions of sonar": lambda who, question: of_sonar(
        sonar(who, question, "/chat/completions").json()
    ),
    "sonar stream, full": sonar_full,
    "sonar stream, concise": sonar_concise,
    "mcp": mcp,
}


def upstream(sandbox: SandboxServer) -> str:
    """What the upstream tells of the newest entry to a client that is not ours."""
    path = f"{sandbox.url}/rest/sse/perplexity_ask/reconnect/{sandbox.web_entries()[0]['id']}"
    cookie = f"{TOKEN}=sandbox-max-tester"
    return httpx.post(path, json={"reconnectInitialSnapshot": True}, headers={"cookie": cookie}).text


def is_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def written(numbers: list[int]) -> list[str]:
    return [f"[{number}]" for number in dict.fromkeys(numbers)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("door", DOORS)
def test_it_gives_every_source_and_maps_or_flags_every_mark(
    sandbox: SandboxServer, door: str, shape: str
) -> None:
    account(parallel_limit=8)
    who = chatter()
    for marker in MARKERS:
        got = DOORS[door](who, f"How do tides work? [sandbox:shape={shape}] {marker}")
        sent = upstream(sandbox)
        numbered, text = told.numbered(sent), told.text(sent)
        marks = [int(mark[1:-1]) for mark in told.MARK.findall(text)]
        assert len(numbered) == 4, marker
        assert len(marks) >= 5, marker
        assert set(got.sources) == told.told(sent), marker
        assert got.sources == numbered, marker
        beyond = [number for number in marks if number > len(numbered)]
        nowhere = [number for number in marks if number <= len(numbered) and not is_web(numbered[number - 1])]
        left = [int(mark[1:-1]) for mark in told.MARK.findall(got.text)]
        assert left == (marks if got.cited is None else beyond), marker
        if got.cited is not None and door != "mcp":
            mapped = [number for number in marks if number not in beyond + nowhere]
            assert Counter(got.cited) == Counter(numbered[number - 1] for number in mapped), marker
        if door != "mcp":
            assert got.checks == {"out_of_range": written(beyond), "unattributed": written(nowhere)}, marker
