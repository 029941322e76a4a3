"""The faults of one exchange with the web backend, at each of its moments (perplexity-web §12)."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.sandbox.web.listener import ASK, WebVisitor, body, cookie, is_challenge, is_page

# How the answer to each fault is told from all others.
WIRE: dict[str, tuple[int, Callable[[httpx.Response], object]]] = {
    "invalid": (400, lambda r: r.json()["detail"] == "Invalid request"),
    "unauthorized": (401, lambda r: r.json() == {"error": "Unauthorized"}),
    "unauthorized-empty": (401, lambda r: r.content == b""),
    "forbidden": (403, lambda r: r.json() == {}),
    "challenge": (403, lambda r: is_challenge(r) and "Just a moment..." in r.text),
    "challenge-block": (403, lambda r: is_challenge(r) and "Attention Required! | Cloudflare" in r.text),
    "challenge-ok": (200, is_challenge),
    "not-found": (404, lambda r: r.json()),
    "too-large": (413, lambda r: r.json()),
    "unprocessable": (422, lambda r: r.json()["detail"][0]["loc"]),
    "rate-limit": (429, lambda r: "retry-after" not in r.headers),
    "server-error": (500, lambda r: r.json()["detail"]),
    "bad-gateway": (502, is_page),
    "unavailable": (503, is_page),
    "gateway-timeout": (504, is_page),
    "edge-error": (522, is_page),
    "not-json": (200, lambda r: is_page(r) and "cf-mitigated" not in r.headers),
    "not-object": (200, lambda r: r.json() == []),
    "empty-body": (200, lambda r: r.content == b""),
}
BROKEN = ("cut", "drop")


def shows(answer: httpx.Response, fault: str) -> bool:
    status, check = WIRE[fault]
    return answer.status_code == status and bool(check(answer))


@pytest.mark.parametrize("fault", WIRE)
async def test_it_refuses_an_ask_before_accepting_it(web: WebVisitor, fault: str) -> None:
    answer = await web.ask(f"Why? [sandbox:{fault}]")
    assert shows(answer.response, fault)
    assert (await web.control("/web/entries"))["entries"] == []


@pytest.mark.parametrize("fault", WIRE)
async def test_it_loses_the_answer_to_an_ask_that_it_accepted(web: WebVisitor, fault: str) -> None:
    answer = await web.ask(f"Why? [sandbox:late-{fault}]")
    assert shows(answer.response, fault)
    assert len((await web.control("/web/entries"))["entries"]) == 1


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_first_asks_and_recovers(web: WebVisitor, fault: str) -> None:
    question = f"Why? [sandbox:{fault}=2]"
    answers = [
        await web.ask(question),
        await web.as_("sandbox-pro-other").ask(question),
        await web.ask(question),
    ]
    assert [shows(answer.response, fault) for answer in answers[:2]] == [True, True]
    assert answers[2].ended


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_first_reconnect(web: WebVisitor, fault: str) -> None:
    entry = (await web.ask(f"Why? [sandbox:poll-{fault}=1]")).entry
    assert shows(await web.send("POST", f"{ASK}/reconnect/{entry}", json={}), fault)
    assert "COMPLETED" in (await web.send("POST", f"{ASK}/reconnect/{entry}", json={})).text


@pytest.mark.parametrize("fault", WIRE)
async def test_it_fails_the_first_terminate_without_effect(web: WebVisitor, fault: str) -> None:
    unfinished = "[sandbox:stuck] [sandbox:end-stream=1]"
    entry = (await web.ask(f"Why? [sandbox:cancel-{fault}=1] {unfinished}")).entry
    assert shows(await terminate(web, entry), fault)
    assert (await web.control("/web/entries"))["entries"][0]["stopped_at"] is None
    assert (await terminate(web, entry)).json()["status"] == "completed"
    assert (await web.control("/web/entries"))["entries"][0]["stopped_at"] is not None


async def terminate(web: WebVisitor, entry: str) -> httpx.Response:
    return await web.send("POST", "/rest/sse/perplexity_terminate", json={"entry_uuid": entry})


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize(("phase", "entries"), [("", 0), ("late-", 1)])
def test_it_breaks_the_connection_of_an_ask(
    client: httpx.Client, phase: str, entries: int, fault: str
) -> None:
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        client.post(ASK, json=body(f"Why? [sandbox:{phase}{fault}]"), headers=cookie("sandbox-pro-a"))
    assert len(client.get("/_sandbox/web/entries").json()["entries"]) == entries


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("phase", ["poll", "cancel"])
def test_it_breaks_the_connection_later(client: httpx.Client, phase: str, fault: str) -> None:
    session = cookie("sandbox-pro-a")
    client.post(ASK, json=body(f"Why? [sandbox:{phase}-{fault}]"), headers=session)
    entry = client.get("/_sandbox/web/entries").json()["entries"][0]["id"]
    path = f"{ASK}/reconnect/{entry}" if phase == "poll" else "/rest/sse/perplexity_terminate"
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        client.post(path, json={"entry_uuid": entry}, headers=session)


async def test_it_says_when_to_come_back(web: WebVisitor) -> None:
    answer = await web.ask("[sandbox:rate-limit] [sandbox:retry-after=7]")
    assert (answer.response.status_code, answer.response.headers["retry-after"]) == (429, "7")
