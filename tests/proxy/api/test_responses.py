"""Chat through `/v1/responses` over a real sandbox: plain and streamed, stored and not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from portal.models.audit import AuditEntry
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.protocol.responses import parse_responses
from proxy.services import responses, settling
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, kinds, say
from tests.proxy.responding import (
    PATH,
    answer,
    ask,
    body,
    checked,
    get,
    in_background,
    public,
    records,
    replay,
    row_of,
    text_of,
)
from tests.sandbox_server import SandboxServer
from tests.visit import Visit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def asked(sandbox: SandboxServer) -> list[Any]:
    """What reached the upstream, the last question last."""
    return [row["body"] for row in reversed(sandbox.web_requests("/rest/sse/perplexity_ask"))]


async def reached(sandbox: SandboxServer) -> None:
    """Until a question has reached the sandbox."""
    for _ in range(500):
        if await asyncio.to_thread(asked, sandbox):
            return
        await asyncio.sleep(0.02)


def test_it_answers_plainly(who: Chatter) -> None:
    whole = answer(who, f"Why? {say('It scatters[1]. ✓')}")

    assert whole["id"].startswith("resp_")
    assert (whole["object"], whole["status"], whole["model"]) == ("response", "completed", "gpt")
    assert text_of(whole) == "It scatters. ✓"
    [message] = [item for item in whole["output"] if item["type"] == "message"]
    [citation] = message["content"][0]["annotations"]
    assert citation["end_index"] == len("It scatters")
    assert whole["usage"]["total_tokens"] == whole["usage"]["input_tokens"] + whole["usage"]["output_tokens"]
    said = {"answered_by": "GPT-5.6 Terra", "usage": "estimated", "sandbox": True}
    assert said.items() <= whole["sonde"].items()
    assert whole["store"] is True


def test_it_writes_a_space_behind_colon_and_comma(who: Chatter) -> None:
    got = ask(who)

    assert b'"status": "completed", ' in got.content
    assert got.headers["x-sonde-sandbox"] == "true"


def test_it_streams_events_that_keep_every_rule(who: Chatter) -> None:
    got = ask(who, "Why is the sea salty?", stream=True)

    payloads = checked(got.content)
    assert got.headers["content-type"] == "text/event-stream"
    assert payloads[-1]["type"] == "response.completed"
    assert {item["type"] for item in payloads[-1]["response"]["output"]} >= {"message", "web_search_call"}


def test_it_says_the_same_streamed_and_plain(who: Chatter) -> None:
    question = "Why is the sea salty?"

    plain, streamed = answer(who, question), checked(ask(who, question, stream=True).content)[-1]["response"]

    assert text_of(plain) == text_of(streamed)
    assert [item["type"] for item in plain["output"]] == [item["type"] for item in streamed["output"]]


@pytest.mark.parametrize("stream", [False, True])
def test_it_keeps_what_it_answered(who: Chatter, stream: bool) -> None:
    got = ask(who, stream=stream)

    whole = checked(got.content)[-1]["response"] if stream else got.json()
    assert get(who, whole["id"]).json() == whole


def test_it_replays_a_stream_to_the_byte(who: Chatter) -> None:
    got = ask(who, stream=True)
    id = checked(got.content)[-1]["response"]["id"]

    assert replay(who, id) == got.content
    assert replay(who, id, after=4) == b"".join(records(got.content)[5:])


def test_it_streams_nothing_again_that_was_answered_plainly(who: Chatter) -> None:
    id = answer(who)["id"]

    assert error_of(get(who, id, stream="true")) == (400, "invalid_request_error", "stream", None)


@pytest.mark.parametrize(
    ("query", "param"),
    [({"stream": "yes"}, "stream"), ({"stream": "true", "starting_after": "x"}, "starting_after")],
)
def test_it_names_what_a_reader_asks_wrongly(who: Chatter, query: dict[str, str], param: str) -> None:
    id = answer(who)["id"]

    assert error_of(get(who, id, **query)) == (400, "invalid_request_error", param, None)


@pytest.mark.parametrize("stream", [False, True])
def test_it_keeps_nothing_that_is_not_to_be_stored(who: Chatter, stream: bool) -> None:
    got = ask(who, store=False, stream=stream)

    whole = checked(got.content)[-1]["response"] if stream else got.json()
    assert whole["store"] is False
    assert not ChatResponse.objects.exists()
    assert get(who, whole["id"]).status_code == 404
    assert who.spent == "0.1 0"


def test_it_charges_each_answer_once(who: Chatter) -> None:
    whole = answer(who)

    assert who.spent == "0.1 0"
    assert kinds(who) == ["reserve", "close"]
    assert who.turn.pk == row_of(whole).pk
    assert (who.turn.state, who.turn.question, who.turn.answer) == ("delivered", "", "")


def test_it_charges_nothing_for_an_answer_that_never_began(who: Chatter) -> None:
    got = ask(who, "Why? [sandbox:web.invalid]")

    assert error_of(got)[:2] == (502, "upstream_error")
    assert who.spent == "0 0"
    row = ChatResponse.objects.get()
    assert row.status == "failed"
    assert row.body["error"]["code"] == "server_error"
    assert row.completed_at is not None


def test_it_is_an_error_of_its_own_while_nothing_was_said(who: Chatter) -> None:
    got = ask(who, "Why? [sandbox:web.invalid]", stream=True)

    assert error_of(got)[:2] == (502, "upstream_error")


def test_it_ends_a_stream_that_breaks_with_an_event(who: Chatter) -> None:
    got = ask(who, "Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", stream=True)

    payloads = checked(got.content)
    last = payloads[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "server_error"
    assert text_of(last["response"])
    assert who.spent == "0.1 0"
    assert get(who, last["response"]["id"]).json() == last["response"]
    assert replay(who, last["response"]["id"]) == got.content


def test_it_refuses_the_penniless_before_anything_is_kept() -> None:
    poor = chatter(credits=0)

    assert error_of(ask(poor))[3] == "insufficient_quota"
    assert error_of(ask(poor, background=True))[3] == "insufficient_quota"
    assert not ChatResponse.objects.exists()


def test_it_names_the_model_that_it_does_not_know(who: Chatter) -> None:
    assert error_of(ask(who, model="nope")) == (
        400,
        "invalid_request_error",
        "model",
        "model_not_found",
    )


def test_it_names_the_input_that_is_too_long(who: Chatter) -> None:
    assert error_of(ask(who, "x" * 96_001))[2:] == ("input", "context_length_exceeded")


def test_it_adds_the_line_that_json_asks_for(who: Chatter, sandbox: SandboxServer) -> None:
    answer(who, text={"format": {"type": "json_object"}})

    assert "one JSON object and nothing else" in str(asked(sandbox)[-1])


def test_it_tells_what_was_dropped(who: Chatter) -> None:
    got = ask(who, instructions="You are Max, a helpful bot.")

    assert got.headers["x-sonde-dropped"] == "system-lines=1"
    assert got.json()["sonde"]["dropped"] == "system-lines=1"


def test_it_says_when_uses_run_low(who: Chatter, pool: WebAccount) -> None:
    WebAccount.objects.filter(pk=pool.pk).update(remaining_pro=6)

    whole = answer(who, f"Why? {say('Because.')}")

    assert text_of(whole) == "Because.\n\n[Remaining Pro Search: 5]"
    usage = whole["usage"]
    assert usage["output_tokens"] - usage["output_tokens_details"]["reasoning_tokens"] == len("Because.") // 4
    assert row_of(whole).said[-1] == ["assistant", "Because."]


def test_it_deletes_for_good(who: Chatter) -> None:
    id = answer(who)["id"]

    gone = who.client.request("DELETE", f"{PATH}/{id}")

    assert gone.json() == {"id": id, "object": "response", "deleted": True}
    assert get(who, id).status_code == 404
    assert who.client.request("DELETE", f"{PATH}/{id}").status_code == 404
    assert AuditEntry.objects.filter(action="response.deleted").exists()


def test_it_answers_a_stranger_as_for_what_does_not_exist(who: Chatter) -> None:
    mine, other = answer(who, stream=False)["id"], chatter()
    unknown = f"resp_{'0' * 32}"

    for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        answers = [other.client.request(method, f"{PATH}/{id}{more}") for id in (mine, unknown)]
        assert [one.status_code for one in answers] == [404, 404]
        assert answers[0].content == answers[1].content
    assert get(who, mine).status_code == 200


def test_it_cancels_nothing_that_somebody_waits_for(who: Chatter) -> None:
    id = answer(who)["id"]

    refused = who.client.post(f"{PATH}/{id}/cancel")

    assert error_of(refused) == (400, "invalid_request_error", "response_id", None)


def test_it_refuses_more_than_may_be_under_way(who: Chatter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.services.responses.MOST_LIVE", 1)
    in_background(who)

    assert error_of(ask(who, background=True))[3] == "rate_limit_exceeded"
    assert who.spent == "0 0.1"


async def test_it_ends_when_its_reader_leaves(who: Chatter, sandbox: SandboxServer) -> None:
    question = "Why? [sandbox:duration=30] [sandbox:pieces=300]"
    visit = Visit(who.client.application, "POST", PATH, body(question, stream=True), key=who.key)
    await visit.until(b"output_text.delta")

    visit.leave()
    await visit.end()

    row = await ChatResponse.objects.aget()
    assert (row.status, row.body["status"]) == ("cancelled", "cancelled")
    assert text_of(row.body)
    assert await asyncio.to_thread(lambda: who.spent) == "0.1 0"


async def test_it_ends_a_plain_answer_whose_caller_leaves(who: Chatter, sandbox: SandboxServer) -> None:
    question = body("Why? [sandbox:duration=30] [sandbox:pieces=300]")
    visit = Visit(who.client.application, "POST", PATH, question, key=who.key)
    await reached(sandbox)

    visit.leave()
    await visit.end()

    row = await ChatResponse.objects.aget()
    assert (row.status, row.body["status"]) == ("cancelled", "cancelled")
    assert await asyncio.to_thread(lambda: who.spent) == "0 0"


async def test_it_never_brings_back_what_was_deleted_meanwhile(who: Chatter) -> None:
    visit = Visit(
        who.client.application, "POST", PATH, body("Why? [sandbox:duration=1]", stream=True), key=who.key
    )
    await visit.until(b"output_text.delta")
    row = await ChatResponse.objects.aget()

    gone = await asyncio.to_thread(who.client.request, "DELETE", f"{PATH}/{public(row)}")
    await visit.end()

    assert gone.status_code == 200
    assert visit.body.count(b"response.completed") == 2
    assert not await ChatResponse.objects.aexists()
    assert await asyncio.to_thread(lambda: who.spent) == "0.1 0"


def test_it_fails_what_a_dead_process_was_answering(who: Chatter) -> None:
    opened = responses.open_response(who.principal, parse_responses(body(), default_model="gpt"))
    ChatTurn.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

    assert settling.sweep_turns() == 1

    row = ChatResponse.objects.get(pk=opened.question.turn_id)
    assert (row.status, row.body["status"]) == ("failed", "failed")
    assert row.body["error"] == {"code": "server_error", "message": settling.DIED}
    assert who.spent == "0 0"
