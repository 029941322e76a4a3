"""`POST /v1/chat/completions` over a real sandbox: shapes, money, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.models.system import RateWindow
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel
from proxy.models.chats import ChatTurn
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, events, kinds, request, say, text_of
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def asks(sandbox: SandboxServer) -> list[dict[str, Any]]:
    return sandbox.web_requests("/rest/sse/perplexity_ask")


def test_it_answers_plainly(who: Chatter) -> None:
    answer = who.chat(f"Why? {say('It scatters[1]. ✓')}")

    body = answer.json()
    assert answer.status_code == 200
    assert body["id"].startswith("chatcmpl-")
    assert len(body["id"]) == len("chatcmpl-") + 12
    assert (body["object"], body["model"], body["system_fingerprint"]) == ("chat.completion", "gpt", None)
    [choice] = body["choices"]
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    assert choice["message"]["content"] == "It scatters. ✓"
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["refusal"] is None
    assert choice["message"]["annotations"][0]["url_citation"]["end_index"] == len("It scatters")
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    said = {"answered_by": "GPT-5.6 Terra", "usage": "estimated", "sandbox": True}
    assert said.items() <= body["sonde"].items()
    assert answer.headers["x-sonde-sandbox"] == "true"
    assert answer.headers["content-type"] == "application/json"


def test_it_streams_in_the_order_of_the_contract(who: Chatter) -> None:
    answer = who.chat(f"Why? {say('It scatters. ✓')}", stream=True)

    chunks = events(answer.content)
    assert answer.headers["content-type"] == "text/event-stream"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant"}
    assert chunks.pop() == "data: [DONE]"
    assert chunks[-1]["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert {chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]} == {None}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert text_of(answer.content) == "It scatters. ✓"


def test_it_says_the_same_streamed_and_plain(who: Chatter) -> None:
    question = "Why is the sea salty?"

    plain = who.chat(question).json()["choices"][0]["message"]["content"]
    streamed = text_of(who.chat(question, stream=True).content)

    assert streamed.strip() == plain


def test_it_ends_with_the_usage_when_asked(who: Chatter) -> None:
    answer = who.chat(stream=True, stream_options={"include_usage": True})

    chunks = events(answer.content)
    assert (chunks[-2]["choices"], chunks[-2]["usage"]["total_tokens"] > 0) == ([], True)
    assert all(chunk["usage"] is None for chunk in chunks[:-2])


@pytest.mark.parametrize("stream", [False, True])
def test_it_charges_a_delivered_answer_once(who: Chatter, stream: bool) -> None:
    who.chat(stream=stream)

    assert who.spent == "0.1 0"
    assert kinds(who) == ["reserve", "close"]
    turn = who.turn
    assert (turn.state, turn.lease_until, turn.answered_by) == ("delivered", None, "gpt56_terra")
    assert turn.first_token_at is not None
    assert (turn.question, turn.answer) == ("", "")
    assert AuditEntry.objects.filter(action="chat.started", target=turn.subject).exists()


def test_it_writes_nothing_into_the_books_for_a_free_model(who: Chatter) -> None:
    assert who.chat(model="auto").status_code == 200

    assert (who.spent, kinds(who)) == ("0 0", [])


@pytest.mark.parametrize("stream", [False, True])
def test_it_refuses_without_credit_and_asks_nobody(sandbox: SandboxServer, stream: bool) -> None:
    poor = chatter(credits=0)

    answer = poor.chat(stream=stream)

    assert error_of(answer) == (429, "rate_limit_error", None, "insufficient_quota")
    assert answer.headers["x-should-retry"] == "false"
    assert asks(sandbox) == []
    assert not ChatTurn.objects.exists()


FAULTS = [  # those inside of a 200: test_failures
    ("unauthorized", 502, "upstream_error"),
    ("forbidden", 502, "upstream_error"),
    ("challenge", 502, "upstream_error"),
    ("challenge-ok", 502, "upstream_error"),
    ("rate-limit", 429, "rate_limit_error"),
    ("server-error", 502, "upstream_error"),
    ("bad-gateway", 502, "upstream_error"),
    ("invalid", 502, "upstream_error"),
    ("not-json", 502, "upstream_error"),
    ("empty-body", 502, "upstream_error"),
    ("drop", 502, "upstream_error"),
]


@pytest.mark.parametrize(("place", "fault", "status", "kind"), [(n, *row) for n, row in enumerate(FAULTS)])
def test_it_answers_every_refusal_with_an_error_and_charges_nothing(
    who: Chatter, place: int, fault: str, status: int, kind: str
) -> None:
    answer = who.chat(f"Why? [sandbox:web.{fault}]", stream=place % 2 == 0)

    assert error_of(answer)[:2] == (status, kind), answer.text
    assert b"[DONE]" not in answer.content
    assert who.spent == "0 0"
    assert who.turn.state == "failed"
    assert who.turn.error_code


REFUSED: list[tuple[dict[str, Any], tuple[int, str | None]]] = [
    ({"model": "nope"}, (400, "model")),
    ({"model": "haiku"}, (403, "model")),
    ({"tools": [{"type": "web_search"}]}, (400, "tools")),
    ({"functions": [{"name": "f"}]}, (400, "tools")),
    ({"temperature": 0.5}, (400, "temperature")),
    ({"max_tokens": 5}, (400, "max_tokens")),
    ({"messages": []}, (400, "messages")),
    ({"messages": [{"role": "user", "content": "x" * 96_001}]}, (400, "messages")),
    ({"messages": [{"role": "assistant", "content": "x"}]}, (400, "messages")),
    (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
                }
            ]
        },
        (400, "input"),
    ),
]


@pytest.mark.parametrize(("fields", "expected"), REFUSED)
def test_it_refuses_before_anything_is_written_or_asked(
    sandbox: SandboxServer, who: Chatter, fields: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    status, _, param, _ = error_of(who.client.post("/v1/chat/completions", json=request("Why?") | fields))

    assert (status, param) == expected
    assert asks(sandbox) == []
    assert not ChatTurn.objects.exists()


def test_it_refuses_a_key_without_the_scope() -> None:
    assert error_of(chatter(scopes=["research"]).chat())[0] == 403


def test_it_refuses_a_model_above_the_tier_of_the_pool(who: Chatter) -> None:
    WebAccount.objects.update(tier="pro")

    assert error_of(who.chat(model="opus")) == (403, "invalid_request_error", "model", "model_not_available")


def test_it_says_when_no_session_is_there(who: Chatter) -> None:
    WebAccount.objects.all().delete()

    answer = who.chat()

    assert error_of(answer)[:2] == (503, "server_error")
    assert (answer.headers["x-should-retry"], who.spent) == ("false", "0 0")


def test_it_tells_what_the_policy_dropped(who: Chatter) -> None:
    messages = [
        {"role": "system", "content": "You are Max.\nReply in English only\nBe brief."},
        {"role": "user", "content": "Why?"},
    ]

    answer = who.chat(messages)

    assert answer.headers["x-sonde-dropped"] == "system-lines=2"
    assert answer.json()["sonde"]["dropped"] == "system-lines=2"


@pytest.mark.parametrize(
    ("policy", "sent"), [("filter", []), ("forward", ["You are Max."]), ("custom", ["Say moo."])]
)
def test_it_treats_prompts_as_the_key_says(
    sandbox: SandboxServer, settings: Settings, policy: str, sent: list[str]
) -> None:
    settings.CUSTOM_PROMPTS = "Say moo."
    who = chatter(prompt_policy=policy)

    who.chat([{"role": "system", "content": "You are Max."}, {"role": "user", "content": "Why?"}])

    query = sandbox.web_entries()[0]["body"]["query_str"]
    assert [line for line in ("You are Max.", "Say moo.") if line in query] == sent


def test_it_reads_the_custom_prompt_from_a_file_as_it_is_now(
    sandbox: SandboxServer, settings: Settings, tmp_path: Any
) -> None:
    path = tmp_path / "prompts.txt"
    settings.CUSTOM_PROMPTS = str(path)
    who = chatter(prompt_policy="custom")
    for text in ("Say moo.", "Say quack!"):
        path.write_text(text)
        who.chat()
        assert text in sandbox.web_entries()[0]["body"]["query_str"]


def test_it_takes_a_pinned_client_for_what_it_is_pinned_to(sandbox: SandboxServer) -> None:
    who = chatter(client_profile="lobehub", prompt_policy="filter")

    answer = who.chat(
        [{"role": "system", "content": "Reply in English only"}, {"role": "user", "content": "Why?"}]
    )

    assert answer.headers["x-sonde-dropped"] == "system-lines=1"
    assert "Reply in English" not in sandbox.web_entries()[0]["body"]["query_str"]


def test_it_lists_sources_for_the_key_or_the_request_that_wants_them(who: Chatter) -> None:
    listed = "---\nSources:\n[1] https://"

    assert listed not in who.chat().json()["choices"][0]["message"]["content"]
    assert listed in who.chat(sources_footer=True).json()["choices"][0]["message"]["content"]
    fond = chatter(sources_footer=True)
    assert listed in text_of(fond.chat(stream=True).content)
    assert listed not in text_of(fond.chat(stream=True, sources_footer=False).content)


def test_it_tells_of_a_substitute_and_of_the_last_uses(who: Chatter, pool: WebAccount) -> None:
    WebAccount.objects.update(remaining_pro=4)

    content = who.chat("Why? [sandbox:substitute]").json()["choices"][0]["message"]["content"]

    assert content.endswith("\n\n[Substituted by Perplexity with GPT-5 Nano]\n\n[Remaining Pro Search: 3]")


def test_it_keeps_the_daily_limit_exactly_and_gives_back_what_failed(sandbox: SandboxServer) -> None:
    who = chatter(chats_per_day=2)

    assert who.chat("Why? [sandbox:web.invalid]").status_code == 502
    assert [who.chat().status_code for _ in range(3)] == [200, 200, 429]

    refused = who.chat()
    assert error_of(refused) == (429, "rate_limit_error", None, "rate_limit_exceeded")
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert refused.headers["x-should-retry"] == "false"
    assert RateWindow.objects.get(subject__startswith="chat:key:").count == 2
    assert (who.spent, len(sandbox.web_entries())) == ("0.2 0", 2)


def test_it_counts_requests_per_minute_and_tells_what_is_left() -> None:
    who = chatter(requests_per_minute=1)

    assert who.chat(stream=True).headers["x-ratelimit-remaining-requests"] == "0"
    assert error_of(who.chat())[3] == "rate_limit_exceeded"


def test_it_shows_the_models_of_the_pool(who: Chatter) -> None:
    body = who.client.get("/v1/models").json()

    shown = [model["id"] for model in body["data"]]
    assert body["object"] == "list"
    assert {"auto", "gpt", "opus"} <= set(shown)
    assert "haiku" not in shown
    assert set(body["data"][0]) == {"id", "object", "created", "owned_by", "mode"}
    WebAccount.objects.update(tier="free")
    assert [model["id"] for model in who.client.get("/v1/models").json()["data"]] == ["auto"]


def test_it_finds_a_model_by_an_id_with_slashes(who: Chatter) -> None:
    ChatModel.objects.create(id="zai/glm", preference="glm", custom=True)

    assert who.client.get("/v1/models/zai/glm").json()["id"] == "zai/glm"
    assert error_of(who.client.get("/v1/models/nope")) == (
        404,
        "invalid_request_error",
        "model",
        "model_not_found",
    )
