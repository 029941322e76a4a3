"""Sources in = sources out at every door of research, counted over the upstream's own bytes (SPEC 3.6, 4).

Each mark is an annotation of a page that was listed, or stands in `sonde.checks`.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from portal.services import keys
from portal.services.keys import authenticate_key
from portal.wire.sse import SseDecoder
from portal.wire.urls import linkable, normalise
from proxy.protocol.session import TOKEN
from research.models.runs import Run
from tests import told
from tests.proxy.accounts import account
from tests.research.api.callers import Caller, caller, run_of
from tests.research.driving import drive
from tests.research.mcp_tools.calling import Agent
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

UPSTREAMS = (
    *(("web", f"[sandbox:shape={shape}]") for shape in ("chunks", "patches", "workflow", "text")),
    *((name, "") for name in ("agent", "sonar", "sonar-sdk")),
)
MARKERS = ("", "[sandbox:marks-range]", "[sandbox:hostile-sources]", "[sandbox:urls-odd]")
PATHS = {"agent": "/v1/agent", "sonar": "/v1/async/sonar", "sonar-sdk": "/async/chat/completions"}
Json = dict[str, Any]


def upstream(sandbox: SandboxServer, run: Run) -> str:
    """What the upstream tells of this run to a client that is not ours."""
    if run.backend == "web":
        path = f"{sandbox.url}/rest/sse/perplexity_ask/reconnect/{sandbox.web_entries()[0]['id']}"
        cookie = f"{TOKEN}=sandbox-max-tester"
        return httpx.post(path, json={"reconnectInitialSnapshot": True}, headers={"cookie": cookie}).text
    path = f"{sandbox.url}{PATHS[run.backend]}/{run.upstream_id}"
    return httpx.get(path, headers={"authorization": f"Bearer {sandbox.key}"}).text


def objects(who: Caller, id: str) -> list[Json]:
    """The whole object, as each of the four doors of Responses gives it."""
    plain = [who.client.get(f"{path}/{id}").json() for path in ("/v1/agent", "/v1/responses")]
    streams = [who.client.get(f"{path}/{id}?stream=true") for path in ("/v1/agent", "/v1/responses")]
    ends = [SseDecoder().feed(stream.content)[-1].data for stream in streams]
    assert all(answer["output"][0]["type"] == "search_results" for answer in plain)
    return [*plain, *(json.loads(end)["response"] for end in ends)]


def agent_of(who: Caller) -> Agent:
    principal = authenticate_key(keys.create_key(who.user, name="mcp")[1], "127.0.0.1")
    assert principal is not None
    return Agent(principal)


def same(urls: list[str]) -> set[str]:
    """Pages by their normal address; the empty ones of sources that may not be linked are left out."""
    return {normalise(url) or url for url in urls if url}


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize(("backend", "shape"), UPSTREAMS)
def test_it_gives_every_source_and_maps_or_flags_every_mark(
    sandbox: SandboxServer, settings: Settings, backend: str, shape: str, marker: str
) -> None:
    settings.RESEARCH_BACKENDS = [backend]
    settings.PERPLEXITY_API_KEY = sandbox.key
    account()
    who = caller()
    id = who.start(f"How do tides work? {shape} {marker}")
    run = drive(run_of(id))
    assert (run.state, run.backend) == ("completed", backend), run.error_message
    sent = upstream(sandbox, run)
    pages, text = told.told(sent), told.text(sent)
    assert len(pages) == 8
    distinct = {normalise(url) or url for url in pages}
    safe = {normalise(url) or url for url in pages if linkable(url)}

    for whole in objects(who, id):
        named = [source["url"] for source in whole["sonde"]["sources"]]
        assert same(named) == safe
        # What cannot be an address counts again under each title that it comes with.
        again = len(named) - len(distinct)
        assert again == 0 or (again > 0 and len(safe) < len(distinct))
        # No event can carry an item that OpenAI's clients do not know: a stream has `sonde` alone.
        items = [item["results"] for item in whole["output"] if item["type"] == "search_results"]
        assert [[page["url"] for page in results] for results in items] in ([], [named])
        check_marks(whole, text)
    check_sonar(who, id, len(distinct), safe)
    page = agent_of(who).structured("get_research", id=id)
    assert len(page["sources"]) >= len(distinct)
    assert same([source["url"] for source in page["sources"]]) == safe
    deep = agent_of(who).call("pplx_deep_research_check", job_id=id).text
    listed = [source["url"] for source in page["sources"] if source["url"]]
    assert [url for url in listed if unescaped(url) not in unescaped(deep)] == []


def unescaped(text: str) -> str:
    """Brackets in an address would end a link in Markdown: they may be written either way."""
    return text.replace("%28", "(").replace("%29", ")")


def check_marks(whole: Json, sent: str) -> None:
    """As many marks as the upstream wrote, each one cited at its place or flagged."""
    [part] = [part for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    text = part["text"]
    assert told.MARK.findall(text)[-len(told.MARK.findall(sent)) :] == told.MARK.findall(sent)
    cited = {(note["start_index"], note["end_index"]) for note in part["annotations"]}
    checks = whole["sonde"]["checks"]
    flagged = {*checks["out_of_range"], *checks["unattributed"]}
    nowhere = {f"[{source['id']}]" for source in whole["sonde"]["sources"] if not source["url"]}
    lost = [
        mark[0]
        for mark in told.MARK.finditer(text)
        if mark.span() not in cited and mark[0] not in flagged | nowhere
    ]
    assert lost == []


def check_sonar(who: Caller, id: str, count: int, safe: set[str]) -> None:
    for family in ("/v1/async/sonar", "/async/chat/completions"):
        answer = who.client.get(f"{family}/{id}").json()["response"]
        assert same(answer["citations"]) == safe
        assert [result["url"] for result in answer["search_results"]] == answer["citations"]
        assert len(answer["citations"]) >= count
