"""Function tools through `/v1/responses`, against the sandbox (proxy-contract §9)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from portal.wire.conformance.checks import faults
from portal.wire.conformance.responses import RESPONSE, ResponseBody
from portal.wire.conformance.responses_stream import STREAM, ResponseStream
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.models.responses import ChatResponse
from proxy.services import background
from tests.proxy.accounts import account
from tests.proxy.chatting import Chatter, chatter, error_of
from tests.sandbox_server import SandboxServer

Json = dict[str, Any]
PATH = "/v1/responses"
STOCK: Json = {
    "type": "function",
    "name": "lookup_inventory",
    "description": "Read the stock count for a SKU.",
    "parameters": {
        "type": "object",
        "properties": {"sku": {"type": "string"}},
        "required": ["sku"],
        "additionalProperties": False,
    },
    "strict": True,
}
CLOCK: Json = {"type": "function", "name": "clock", "description": "Tells the time"}
TOOLS = [STOCK, CLOCK]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sandbox")]


@pytest.fixture(autouse=True)
def pool(sandbox: SandboxServer) -> WebAccount:
    return account()


@pytest.fixture
def who() -> Chatter:
    return chatter()


def post(who: Chatter, said: Any = "How many?", **fields: Any) -> httpx.Response:
    return who.client.post(PATH, json={"model": "gpt", "input": said, **fields})


def ask(who: Chatter, said: Any = "How many?", **fields: Any) -> Json:
    answer = post(who, said, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-sonde-experimental"] == "function-tools"
    whole: Json = answer.json()
    assert faults(RESPONSE.run(ResponseBody(whole, request=fields))) == []
    return whole


def calls_of(whole: Json) -> list[Json]:
    assert whole["output_text"] == ""
    assert {item["type"] for item in whole["output"]} == {"function_call"}
    calls: list[Json] = whole["output"]
    return calls


def events_of(answer: httpx.Response) -> list[Json]:
    """The events of a stream that keeps every rule."""
    assert answer.status_code == 200, answer.text
    stream = ResponseStream.of(answer.content)
    assert faults(STREAM.run(stream)) == []
    return list(stream.events)


def back(call: Json, output: Any = '{"quantity": 7}') -> Json:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": output}


def asked(sandbox: SandboxServer) -> Json:
    """The last document that reached the upstream."""
    document: Json = json.loads(sandbox.web_entries()[0]["body"]["query_str"])
    return document


def test_it_answers_with_a_call(who: Chatter) -> None:
    [call] = calls_of(ask(who, tools=TOOLS))

    assert (call["name"], call["arguments"], call["status"]) == (
        "lookup_inventory",
        '{"sku":"xxxx"}',
        "completed",
    )
    assert (call["id"][:3], len(call["id"])) == ("fc_", 35)
    assert (call["call_id"][:5], len(call["call_id"])) == ("call_", 37)
    assert (who.spent, who.turn.state) == ("0.1 0", "delivered")


def test_it_streams_calls_once_they_are_sound(who: Chatter) -> None:
    events = events_of(post(who, "How many? [sandbox:bridge=two]", tools=TOOLS, stream=True))

    a_call = [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    kinds = [event["type"] for event in events]
    assert kinds == ["response.created", "response.in_progress", *a_call, *a_call, "response.completed"]
    assert events[2]["item"]["arguments"] == ""
    assert [call["name"] for call in calls_of(events[-1]["response"])] == ["lookup_inventory", "clock"]


def test_it_streams_a_message_as_any_other(who: Chatter) -> None:
    events = events_of(post(who, "Hello [sandbox:bridge=message]", tools=TOOLS, stream=True))

    said = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert said == events[-1]["response"]["output_text"] == "This is a simulated message."
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]


def test_it_goes_on_from_a_stored_response_without_definitions(sandbox: SandboxServer, who: Chatter) -> None:
    first = ask(who, tools=TOOLS)
    [call] = calls_of(first)

    second = ask(who, [back(call)], previous_response_id=first["id"])

    assert second["output_text"].endswith('{"quantity": 7}')
    assert second["tool_choice"] == "none"
    assert [tool["name"] for tool in second["tools"]] == ["lookup_inventory", "clock"]
    document = asked(sandbox)
    assert "Functions you may call: []" in document["instructions"][0]
    assert [item["type"] for item in document["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


def test_it_keeps_the_definitions_over_a_third_response(who: Chatter) -> None:
    first = ask(who, tools=TOOLS)
    second = ask(who, [back(calls_of(first)[0])], previous_response_id=first["id"])

    refused = post(who, "Again? [sandbox:bridge=call]", previous_response_id=second["id"])
    again = "Again? [sandbox:bridge=call]"
    third = ask(who, again, previous_response_id=second["id"], tools=TOOLS, tool_choice="required")

    assert error_of(refused)[3] == "tool_protocol_error"
    assert calls_of(third)


def test_it_goes_on_in_a_stream(who: Chatter) -> None:
    first = ask(who, tools=TOOLS)

    events = events_of(post(who, [back(calls_of(first)[0])], previous_response_id=first["id"], stream=True))

    assert events[-1]["response"]["previous_response_id"] == first["id"]
    assert "quantity" in events[-1]["response"]["output_text"]


def test_it_goes_on_from_the_whole_list_of_items(who: Chatter) -> None:
    [call] = calls_of(ask(who, tools=TOOLS, store=False))
    said = [{"role": "user", "content": "How many?"}, call, back(call, [{"type": "input_text", "text": "7"}])]

    assert ask(who, said, tools=TOOLS, store=False)["output_text"].endswith(": 7")


def test_it_goes_on_in_a_conversation(who: Chatter) -> None:
    first = ask(who, tools=TOOLS, conversation="stock")

    second = ask(who, [back(calls_of(first)[0])], conversation="stock")

    assert second["output_text"].endswith('{"quantity": 7}')
    assert second["previous_response_id"] == first["id"]


def test_it_continues_a_message_of_the_bridge(sandbox: SandboxServer, who: Chatter) -> None:
    first = ask(who, "Hello [sandbox:bridge=message]", tools=TOOLS)

    ask(who, "And now?", previous_response_id=first["id"], tools=TOOLS)

    said = [(item["role"], item["content"]) for item in asked(sandbox)["input"]]
    assert said == [
        ("user", "Hello [sandbox:bridge=message]"),
        ("assistant", "This is a simulated message."),
        ("user", "And now?"),
    ]


def test_it_is_made_by_a_worker_as_well(who: Chatter) -> None:
    first = ask(who, tools=TOOLS, background=True)
    assert first["status"] == "queued"
    row = ChatResponse.objects.get()

    background.answer_response(row.pk)

    done = who.client.get(f"{PATH}/{first['id']}").json()
    assert (done["status"], calls_of(done)[0]["name"]) == ("completed", "lookup_inventory")
    events = events_of(who.client.get(f"{PATH}/{first['id']}", params={"stream": "true"}))
    assert events[-1]["response"] == done
    second = ask(who, [back(calls_of(done)[0])], previous_response_id=first["id"])
    assert "quantity" in second["output_text"]


def test_it_fails_in_a_worker_when_the_model_breaks_the_rules(who: Chatter) -> None:
    first = ask(who, "How many? [sandbox:bridge=prose]", tools=TOOLS, background=True)

    background.answer_response(ChatResponse.objects.get().pk)

    done = who.client.get(f"{PATH}/{first['id']}").json()
    assert (done["status"], done["error"]["code"]) == ("failed", "tool_protocol_error")
    assert done["output"] == []
    assert who.spent == "0 0"


@pytest.mark.parametrize("manner", ["prose", "wrong"])
def test_it_fails_whole_and_free_of_charge_when_the_model_breaks_the_rules(who: Chatter, manner: str) -> None:
    answer = post(who, f"How many? [sandbox:bridge={manner}]", tools=TOOLS)

    assert error_of(answer) == (502, "upstream_error", None, "tool_protocol_error")
    assert (who.spent, who.turn.state) == ("0 0", "failed")
    row = ChatResponse.objects.get()
    assert (row.status, row.body["error"]["code"]) == ("failed", "tool_protocol_error")


def test_it_ends_a_stream_as_failed_when_the_model_breaks_the_rules(who: Chatter) -> None:
    events = events_of(post(who, "How many? [sandbox:bridge=prose]", tools=TOOLS, stream=True))

    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]
    assert events[-1]["response"]["error"]["code"] == "tool_protocol_error"
    assert who.spent == "0 0"


REFUSED: list[tuple[Json, str]] = [
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "nobody"}}, "tool_choice"),
    ({"input": [{"type": "function_call_output", "call_id": "call_1", "output": ""}]}, "tools"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_it_refuses_before_anything_is_written_or_asked(
    sandbox: SandboxServer, who: Chatter, fields: Json, param: str
) -> None:
    answer = who.client.post(PATH, json={"model": "gpt", "input": "What time?", **fields})

    assert error_of(answer)[:3] == (400, "invalid_request_error", param)
    assert sandbox.web_entries() == []
    assert not ChatTurn.objects.exists()


def test_it_wants_each_stored_call_answered(who: Chatter) -> None:
    first = ask(who, "How many? [sandbox:bridge=two]", tools=TOOLS)
    one, other = calls_of(first)

    for said in (
        [back(one)],
        [{"role": "user", "content": "Never mind"}],
        [back(one), back(one), back(other)],
    ):
        assert error_of(post(who, said, previous_response_id=first["id"]))[:3] == (
            400,
            "invalid_request_error",
            "input",
        )
