"""Synchronous Sonar over a real sandbox: shapes, money, refusals (perplexity-api §4, SPEC 4.3)."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from perplexity.types.stream_chunk import StreamChunk
from pydantic import TypeAdapter

from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, events, kinds, say
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]
CHUNK: TypeAdapter[StreamChunk] = TypeAdapter(StreamChunk)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(256)
PATHS = ("/chat/completions", "/v1/sonar")


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def ask(
    who: Chatter, question: str = "Why is the sky blue?", path: str = PATHS[0], **fields: Any
) -> httpx.Response:
    messages = [{"role": "user", "content": question}]
    return who.client.post(path, json={"model": "sonar-pro", "messages": messages, **fields})


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Status, type and param, of the gateway's shape."""
    error = response.json()["error"]
    assert set(error) <= {"message", "type", "code", "param"}
    assert error["code"] == response.status_code
    assert "sandbox-" not in response.text
    return response.status_code, error["type"], error.get("param")


@pytest.mark.parametrize("path", PATHS)
def test_it_answers_plainly(who: Chatter, path: str) -> None:
    answer = ask(who, f"Why? {say('It scatters[1]. ✓')}", path)

    assert answer.status_code == 200
    CHUNK.validate_json(answer.content, strict=True)
    body = answer.json()
    assert (body["object"], body["model"]) == ("chat.completion", "sonar-pro")
    assert body["choices"][0]["message"]["content"] == "It scatters[1]. ✓"
    assert len(body["citations"]) == len(body["search_results"]) > 0
    assert body["usage"]["cost"]["total_cost"] == 0
    assert (body["sonde"]["model"], body["sonde"]["sandbox"]) == ("Sonar 2", True)
    assert answer.headers["x-sonde-sandbox"] == "true"


@pytest.mark.parametrize("mode", ["full", "concise"])
def test_it_streams_what_it_says_plainly(who: Chatter, mode: str) -> None:
    plain = ask(who).json()
    answer = ask(who, stream=True, stream_mode=mode)

    assert answer.headers["content-type"] == "text/event-stream"
    shown = events(answer.content)
    assert shown.pop() == "data: [DONE]"
    for chunk in shown:
        CHUNK.validate_python(chunk, strict=True)
    said = "".join(chunk["choices"][0]["delta"]["content"] for chunk in shown)
    assert said == shown[-1]["choices"][0]["message"]["content"]
    assert said.strip() == plain["choices"][0]["message"]["content"]
    assert shown[-1]["citations"] == plain["citations"]


def test_it_continues_the_thread_of_an_answer_with_marks(who: Chatter, sandbox: SandboxServer) -> None:
    first = {"role": "user", "content": f"Why? {say('It scatters[1].')}"}
    said = who.client.post(PATHS[0], json={"model": "sonar", "messages": [first]}).json()
    answered = said["choices"][0]["message"]
    messages = [
        first,
        {"role": "assistant", "content": answered["content"]},
        {"role": "user", "content": "And?"},
    ]

    assert who.client.post(PATHS[0], json={"model": "sonar", "messages": messages}).status_code == 200

    asks = sandbox.web_requests("/rest/sse/perplexity_ask")
    followed = [json.loads(row["body"])["params"]["last_backend_uuid"] for row in asks]
    assert sorted(bool(entry) for entry in followed) == [False, True]


def test_it_thinks_where_the_model_s_name_says_so(who: Chatter, sandbox: SandboxServer) -> None:
    assert ask(who, model="sonar-reasoning-pro").status_code == 200
    assert who.turn.thinking
    assert who.turn.model == "gpt"


def test_it_takes_the_catalogue_s_own_names(who: Chatter) -> None:
    assert ask(who, model="sonnet").json()["model"] == "sonnet"


def test_it_shows_a_picture_to_the_model(who: Chatter, sandbox: SandboxServer) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "sonar", "messages": [{"role": "user", "content": parts}]}

    assert who.client.post(PATHS[0], json=body).status_code == 200

    [upload] = sandbox.control("web/uploads")["uploads"]
    assert upload["received"] == len(PNG)


@pytest.mark.parametrize("stream", [False, True])
def test_it_charges_as_chat_does(who: Chatter, stream: bool) -> None:
    ask(who, stream=stream)

    assert who.spent == "0.1 0"
    assert kinds(who) == ["reserve", "close"]


def test_it_lists_what_was_not_honoured(who: Chatter) -> None:
    answer = ask(who, temperature=0.2, search_domain_filter=["a.org"])
    assert answer.json()["sonde"]["ignored"] == ["search_domain_filter", "temperature"]


def test_it_searches_what_is_recent_enough(who: Chatter, sandbox: SandboxServer) -> None:
    assert ask(who, search_recency_filter="week").status_code == 200
    [entry] = sandbox.web_entries()
    assert entry["body"]["params"]["search_recency_filter"] == "WEEK"


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"model": None}, "invalid_request", "model"),
        ({"model": "nope"}, "invalid_model", "model"),
        ({"model": "sonar-deep-research"}, "invalid_model", "model"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"response_format": {"type": "regex"}}, "invalid_request", "response_format"),
    ],
)
def test_it_names_what_is_wrong_and_charges_nothing(
    who: Chatter, fields: dict[str, Any], kind: str, param: str
) -> None:
    assert error_of(ask(who, **fields)) == (400, kind, param)
    assert not ChatTurn.objects.exists()


@pytest.mark.parametrize("path", [*PATHS, "/v1/chat/completions"])
def test_it_names_the_path_that_deep_research_takes(who: Chatter, path: str) -> None:
    refused = ask(who, path=path, model="sonar-deep-research")
    assert refused.status_code == 400
    assert "/v1/async/sonar" in refused.json()["error"]["message"]


def test_it_refuses_the_penniless_without_a_retry() -> None:
    refused = ask(chatter(credits=0))
    assert error_of(refused) == (429, "insufficient_quota", None)
    assert refused.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("stream", [False, True])
def test_it_fails_before_the_first_text_by_its_status(who: Chatter, stream: bool) -> None:
    refused = ask(who, "Why? [sandbox:web.failed]", stream=stream)
    assert error_of(refused)[:2] == (502, "bad_gateway")
    assert who.spent == "0 0"


@pytest.mark.parametrize("mode", ["full", "concise"])
def test_it_breaks_off_by_an_error_event(who: Chatter, mode: str) -> None:
    answer = ask(who, "Why? [sandbox:cut-stream=12] [sandbox:pieces=12]", stream=True, stream_mode=mode)
    assert answer.status_code == 200
    last = answer.text.rstrip().rpartition("\n\n")[2]
    assert last.startswith('event: error\ndata: {"error":{"message":')
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("GET", "/chat/completions", "method_not_allowed", 405),
        ("GET", "/v1/sonar", "method_not_allowed", 405),
        ("POST", "/v1/sonar/more", "not_found", 404),
    ],
)
def test_it_refuses_other_methods_and_paths_in_the_same_shape(
    who: Chatter, method: str, path: str, kind: str, status: int
) -> None:
    assert error_of(who.client.request(method, path))[:2] == (status, kind)


def test_it_wants_a_key_with_the_scope(who: Chatter) -> None:
    assert error_of(ask(chatter(scopes=["research"])))[:2] == (403, "forbidden")
    who.client.headers = {}
    assert error_of(ask(who))[:2] == (401, "invalid_api_key")
