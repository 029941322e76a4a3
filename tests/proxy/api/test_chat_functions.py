"""Function tools in Chat Completions, against the sandbox (proxy-contract §9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn, Continuation
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of, events, say
from tests.sandbox_server import SandboxServer

Json = dict[str, Any]
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
CLOCK: Json = {"type": "function", "function": {"name": "clock", "description": "Tells the time"}}
TOOLS = [WEATHER, CLOCK]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def said(call: Json, output: str) -> list[Json]:
    """The conversation after a call was carried out."""
    return [
        {"role": "user", "content": "Weather in Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": output},
    ]


def test_it_answers_with_a_call(who: Chatter) -> None:
    answer = who.chat("Weather in Rome?", tools=TOOLS)

    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls"
    assert message["content"] is None
    [call] = message["tool_calls"]
    assert call["type"] == "function"
    assert call["id"].startswith("call_")
    assert call["function"] == {"name": "get_weather", "arguments": '{"city":"xxxx"}'}
    assert answer.headers["x-sonde-experimental"] == "function-tools"
    assert (who.spent, who.turn.state) == ("0.1 0", "delivered")


def test_it_goes_on_from_the_output_of_a_call(who: Chatter) -> None:
    [call] = who.chat("Weather in Rome?", tools=TOOLS).json()["choices"][0]["message"]["tool_calls"]

    answer = who.chat(said(call, "It rains [1]"), tools=TOOLS).json()["choices"][0]

    assert answer["finish_reason"] == "stop"
    assert answer["message"]["content"].endswith("It rains [1]")
    assert "tool_calls" not in answer["message"]


def test_it_streams_calls_in_fragments(who: Chatter) -> None:
    answer = who.chat(
        "Weather? [sandbox:bridge=two]", tools=TOOLS, stream=True, stream_options={"include_usage": True}
    )

    *chunks, last = events(answer.content)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0] == {"role": "assistant"}
    begun = [delta["tool_calls"][0] for delta in deltas[1:-1:2]]
    assert [(one["index"], one["function"]["name"], one["function"]["arguments"]) for one in begun] == [
        (0, "get_weather", ""),
        (1, "clock", ""),
    ]
    assert [delta["tool_calls"] for delta in deltas[2:-1:2]] == [
        [{"index": 0, "function": {"arguments": '{"city":"xxxx"}'}}],
        [{"index": 1, "function": {"arguments": "{}"}}],
    ]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert last == "data: [DONE]"
    assert answer.headers["x-sonde-experimental"] == "function-tools"


def test_it_streams_a_message(who: Chatter) -> None:
    answer = who.chat("Hello [sandbox:bridge=message]", tools=TOOLS, stream=True)

    chunks = events(answer.content)[:-1]
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant"},
        {"content": "This is a simulated message."},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


BROKEN = ["prose", "fenced", "wrong", "unknown", "duplicate", "extra", "empty", "nan"]


@pytest.mark.parametrize(("manner", "stream"), [*((one, False) for one in BROKEN), ("prose", True)])
def test_it_fails_whole_and_free_of_charge_when_the_model_breaks_the_rules(
    who: Chatter, manner: str, stream: bool
) -> None:
    answer = who.chat(f"Weather? [sandbox:bridge={manner}]", tools=TOOLS, stream=stream)

    assert error_of(answer) == (502, "upstream_error", None, "tool_protocol_error")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-sonde-experimental"] == "function-tools"
    assert (who.spent, who.turn.state, who.turn.error_code) == ("0 0", "failed", "tool_protocol_error")


def test_it_blames_the_model_and_not_the_account(who: Chatter, pool: WebAccount) -> None:
    WebAccount.objects.update(remaining_pro=5)

    who.chat("Weather? [sandbox:bridge=prose]", tools=TOOLS)

    pool.refresh_from_db()
    assert (pool.health, pool.remaining_pro) == ("active", 4)


def test_it_asks_once_only(sandbox: SandboxServer, who: Chatter) -> None:
    who.chat("Weather? [sandbox:bridge=prose]", tools=TOOLS)

    assert len(sandbox.web_entries()) == 1


@pytest.mark.parametrize(
    ("choice", "manner"),
    [
        ("required", "message"),
        ("none", "call"),
        ({"type": "function", "function": {"name": "clock"}}, "message"),
        ({"type": "function", "function": {"name": "clock"}}, "two"),
    ],
)
def test_it_holds_the_model_to_the_choice(who: Chatter, choice: Any, manner: str) -> None:
    answer = who.chat(f"Weather? [sandbox:bridge={manner}]", tools=TOOLS, tool_choice=choice)

    assert error_of(answer)[3] == "tool_protocol_error"


def test_it_makes_one_call_where_only_one_is_wanted(who: Chatter) -> None:
    two = "Weather? [sandbox:bridge=two]"

    assert error_of(who.chat(two, tools=TOOLS, parallel_tool_calls=False))[3] == "tool_protocol_error"
    assert who.chat("Weather?", tools=TOOLS, parallel_tool_calls=False).status_code == 200


def test_it_sends_rules_functions_and_the_callers_own_prompt(sandbox: SandboxServer, who: Chatter) -> None:
    who.chat(
        [{"role": "system", "content": "You are Max."}, {"role": "user", "content": "Weather?"}], tools=TOOLS
    )

    document = json.loads(sandbox.web_entries()[0]["body"]["query_str"])
    assert document["instructions"][1:] == ["You are Max."]
    assert '"name": "get_weather"' in document["instructions"][0]
    assert document["input"] == [{"type": "message", "role": "user", "content": "Weather?"}]


def test_it_never_cleans_what_the_model_says(who: Chatter) -> None:
    spoken = json.dumps({"type": "message", "content": "a[0] <script>x</script> [1]"})

    answer = who.chat(f"Weather? {say(spoken)}", tools=TOOLS)

    assert answer.json()["choices"][0]["message"]["content"] == "a[0] <script>x</script> [1]"


def test_it_shows_what_is_attached_under_its_own_name(sandbox: SandboxServer) -> None:
    who = chatter(scopes=["chat", "files"])
    png = b"\x89PNG\r\n\x1a\n" + bytes(64)
    kept = who.client.post("/v1/files", files={"file": ("sky.png", png, "image/png")}).json()["id"]
    parts = [{"type": "text", "text": "Look:"}, {"type": "file", "file": {"file_id": kept}}]

    answer = who.chat([{"role": "user", "content": parts}], tools=TOOLS)

    body = sandbox.web_entries()[0]["body"]
    assert answer.status_code == 200, answer.text
    assert json.loads(body["query_str"])["input"][0]["content"] == "Look: [Attached file: sky.png]"
    assert len(body["params"]["attachments"]) == 1


def test_it_continues_no_thread_and_leaves_none(who: Chatter) -> None:
    who.chat("Hello [sandbox:bridge=message]", tools=TOOLS)

    assert not Continuation.objects.exists()


def test_it_tells_an_upstream_that_fails_apart(who: Chatter) -> None:
    answer = who.chat("Weather? [sandbox:web.cut-stream=3]", tools=TOOLS)

    assert error_of(answer) == (502, "upstream_error", None, "upstream_error")
    assert who.spent == "0 0"


REFUSED: list[tuple[Json, str]] = [
    ({"tools": TOOLS * 2}, "tools"),
    ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
    ({"tools": TOOLS, "messages": [{"role": "tool", "tool_call_id": "call_1", "content": ""}]}, "messages"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_it_refuses_before_anything_is_written_or_asked(
    sandbox: SandboxServer, who: Chatter, fields: Json, param: str
) -> None:
    answer = who.client.post(
        "/v1/chat/completions",
        json={"model": "gpt", "messages": [{"role": "user", "content": "?"}], **fields},
    )

    assert error_of(answer)[:3] == (400, "invalid_request_error", param)
    assert sandbox.web_entries() == []
    assert not ChatTurn.objects.exists()
