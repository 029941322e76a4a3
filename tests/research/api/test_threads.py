"""One thread through both engines: a chat goes on from a run, and a run from a chat (SPEC 3.8, 4.2)."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from portal.doors import doors
from portal.services import keys
from portal.wire.ids import response_id
from proxy.models.chats import Continuation
from proxy.models.responses import ChatResponse
from proxy.services.background import answer_response
from research.models.runs import Run
from research.protocol.outcome import Earlier
from research.services import earlier
from research.services.collect import order_of
from tests.api_client import Client
from tests.proxy.accounts import account
from tests.research.api.callers import Caller, caller, end, run_of
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/v1/responses"
UNKNOWN = f"resp_{'0' * 32}"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(500)
Json = dict[str, Any]


@pytest.fixture
def who() -> Caller:
    return caller()


@pytest.fixture
def chats(sandbox: SandboxServer) -> None:
    """There is somebody to answer chats."""
    account()


def chat(who: Caller, said: str, previous: str | None = None, **fields: Any) -> Json:
    body = {"model": "gpt", "input": said, "previous_response_id": previous, **fields}
    answered = who.client.post(PATH, json=body)
    assert answered.status_code == 200, answered.text
    whole: Json = answered.json()
    return whole


def shown(sandbox: SandboxServer) -> int:
    """How many attachments came with the newest question."""
    return len(sandbox.web_entries()[0]["body"]["params"]["attachments"])


def research(who: Caller, previous: str) -> Run:
    started = who.client.post(PATH, json={"preset": "2m", "input": "Go on", "previous_response_id": previous})
    assert started.status_code == 200, started.text
    assert started.json()["previous_response_id"] == previous
    return run_of(started.json()["id"])


def refused(client: Client, previous: str, **fields: Any) -> tuple[int, Json]:
    answer = client.post(PATH, json={"input": "Go on", "previous_response_id": previous, **fields})
    error: Json = answer.json()["error"]
    assert error["param"] == "previous_response_id"
    return answer.status_code, error


def narrow(who: Caller, *scopes: str) -> Client:
    return Client(doors, keys.create_key(who.user, name="narrow", scopes=scopes)[1])


def stored(who: Caller, *said: list[str], status: str = "completed") -> str:
    """A chat's response as the row keeps it."""
    ended = None if status in ("queued", "in_progress") else run_of(who.start()).created_at
    row = ChatResponse.objects.create(
        id=run_of(who.start()).upstream_key, user=who.user, status=status, said=said, completed_at=ended
    )
    return response_id(row.pk)


@pytest.mark.usefixtures("chats")
def test_a_chat_goes_on_from_a_run_and_from_what_came_before_it(who: Caller, sandbox: SandboxServer) -> None:
    first = who.start("Why is the sky blue?")
    end(first, text="It scatters.")
    second = who.start("And at dusk?", previous_response_id=first)
    end(second, state="incomplete", text="It reddens.")

    whole = chat(who, "And at noon?", second)

    assert whole["previous_response_id"] == second
    sent = json.loads(sandbox.web_requests("/rest/sse/perplexity_ask")[0]["body"])["query_str"]
    said = [turn["content"] for turn in json.loads(sent)["history"]]
    assert said == ["Why is the sky blue?", "It scatters.", "And at dusk?", "It reddens."]
    assert ChatResponse.objects.get().said[:4] == [
        ["user", said[0]],
        ["assistant", said[1]],
        ["user", said[2]],
        ["assistant", said[3]],
    ]


@pytest.mark.usefixtures("chats")
@pytest.mark.parametrize("background", [False, True])
def test_a_chat_is_shown_what_the_run_was(sandbox: SandboxServer, background: bool) -> None:
    """And so is whatever goes on from that chat (proxy-contract §8.4)."""
    who = caller(scopes=["research", "chat", "files"])
    data = f"data:image/png;base64,{b64encode(PNG).decode()}"
    parts = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": data}]
    asked = who.client.post("/v1/agent", json={"input": [{"role": "user", "content": parts}]})
    run = asked.json()["id"]
    end(run, text="A picture.")

    first = chat(who, "Whose?", run, background=background)
    if background:
        answer_response(ChatResponse.objects.get().pk)
    assert shown(sandbox) == 1
    Continuation.objects.all().delete()
    chat(who, "Really?", first["id"])

    assert shown(sandbox) == 1
    stored = {upload["digest"] for upload in sandbox.control("web/uploads")["uploads"]}
    assert stored == {sha256(PNG).hexdigest()}


@pytest.mark.usefixtures("chats")
def test_a_chat_in_the_background_keeps_what_the_run_said(who: Caller) -> None:
    run = who.start("Why?")
    end(run, text="Because.")

    chat(who, "So?", run, background=True)

    row = ChatResponse.objects.get()
    assert row.said == [["user", "Why?"], ["assistant", "Because."], ["user", "So?"]]


@pytest.mark.usefixtures("chats")
def test_a_chat_knows_no_run_that_its_caller_does_not(who: Caller) -> None:
    run = who.start()
    end(run)
    unknown = refused(who.client, UNKNOWN)

    assert unknown[0] == 404
    assert refused(caller().client, run) == unknown
    assert refused(narrow(who, "chat"), run) == unknown
    who.client.request("DELETE", f"{PATH}/{run}")
    assert refused(who.client, run) == unknown


@pytest.mark.parametrize("state", ["queued", "failed", "cancelled"])
@pytest.mark.usefixtures("chats")
def test_a_chat_goes_on_from_no_run_without_a_report(who: Caller, state: str) -> None:
    run = who.start()
    if state != "queued":
        end(run, state=state)

    status, error = refused(who.client, run)

    assert (status, state in error["message"]) == (400, True)


def test_a_run_goes_on_from_a_chat(who: Caller) -> None:
    said = ["user", "My name is Ada."], ["assistant", "Hello."], ["user", "Why?"], ["assistant", "So."]
    previous = stored(who, *said)
    run = research(who, previous)

    assert order_of(run, "agent").earlier == Earlier(chat=tuple((role, text) for role, text in said))
    told = who.client.get(f"{PATH}/{run.public_id}").json()
    who.client.request("DELETE", f"{PATH}/{previous}")
    assert who.client.get(f"{PATH}/{run.public_id}").json() == told
    assert order_of(run, "agent").earlier is None


def test_a_run_takes_the_newest_of_a_long_chat(who: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "MOST_CARRIED", 8)
    run = research(who, stored(who, ["user", "first"], ["assistant", "four"], ["user", "five"]))

    found = order_of(run, "agent").earlier

    assert found
    assert found.said == (("assistant", "four"), ("user", "five"))


def test_a_run_is_told_what_functions_gave_as_the_users_words(who: Caller) -> None:
    said = ["user", "Stock?"], ["function_call", "c1", "look", "{}"], ["function_call_output", "c1", "seven"]
    run = research(who, stored(who, *said))

    found = order_of(run, "agent").earlier

    assert found
    assert found.said == (("user", "Stock?"), ("user", "[tool output c1]: seven"))


def test_a_chat_goes_on_from_a_run_that_went_on_from_a_chat(who: Caller) -> None:
    run = research(who, stored(who, ["user", "My name is Ada."], ["assistant", "Hello."]))
    end(run.public_id, text="A report.")

    principal = keys.authenticate_key(who.client.headers["Authorization"].split()[1], "127.0.0.1")
    assert principal
    said = earlier.said_in_run(principal, UUID(run.public_id.removeprefix("resp_")))

    assert said == (
        ("user", "My name is Ada."),
        ("assistant", "Hello."),
        ("user", "Go on"),
        ("assistant", "A report."),
    )


def test_a_run_knows_no_chat_that_its_caller_does_not(who: Caller) -> None:
    previous = stored(who, ["user", "Why?"], ["assistant", "So."])
    unknown = refused(who.client, UNKNOWN, preset="2m")

    assert refused(caller().client, previous, preset="2m") == unknown
    assert refused(narrow(who, "research"), previous, preset="2m") == unknown


@pytest.mark.parametrize("status", ["queued", "in_progress", "failed", "cancelled", "incomplete"])
def test_a_run_goes_on_from_no_chat_that_did_not_complete(who: Caller, status: str) -> None:
    code, error = refused(who.client, stored(who, status=status), preset="2m")

    assert (code, status in error["message"]) == (400, True)
