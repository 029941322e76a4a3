"""The bridge in Chat's shapes: what is read of a request, and what is told of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from portal.wire.conformance.chat import CHAT, ChatBody
from portal.wire.conformance.chat_stream import STREAM, ChatStream
from portal.wire.conformance.checks import faults
from portal.wire.errors import BadRequest
from proxy.protocol.chat import ChatRequest, parse_chat
from proxy.protocol.chat_functions import streamed, whole
from proxy.protocol.chat_stream import ChatHead
from proxy.protocol.functions_answer import BridgeAnswer, Called, Spoken
from proxy.protocol.response_object import FunctionCall

Json = dict[str, Any]
WHOLE: TypeAdapter[ChatCompletion] = TypeAdapter(ChatCompletion)
CHUNK: TypeAdapter[ChatCompletionChunk] = TypeAdapter(ChatCompletionChunk)
CLOCK: Json = {"type": "function", "function": {"name": "clock", "description": "Tells the time"}}
CALL: Json = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
USER: Json = {"role": "user", "content": "What time is it?"}
CALLING: Json = {"role": "assistant", "content": None, "tool_calls": [CALL]}
BACK: Json = {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}
NOW = 1_800_000_000


def parse(*messages: Json, **members: Any) -> ChatRequest:
    return parse_chat({"messages": list(messages) or [USER], "tools": [CLOCK], **members}, "gpt")


def document(request: ChatRequest) -> Json:
    assert request.bridge is not None
    read: Json = json.loads(request.bridge.query)
    return read


def test_it_is_a_plain_chat_without_a_function() -> None:
    none: list[Any] = [None, []]
    for tools in none:
        assert parse(tools=tools, tool_choice="none", parallel_tool_calls=False).bridge is None


def test_it_reads_calls_and_their_outputs() -> None:
    request = parse(USER, CALLING, BACK)

    assert [item["type"] for item in document(request)["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert [message.role for message in request.messages] == ["user"]


def test_it_keeps_what_the_assistant_says_beside_its_calls() -> None:
    said = document(parse(USER, CALLING | {"content": "Let me look."}, BACK))["input"]

    assert said[1] == {"type": "message", "role": "assistant", "content": "Let me look."}


def test_it_reads_an_output_of_parts() -> None:
    parts = [{"type": "text", "text": "12"}, {"type": "text", "text": "00"}]

    assert document(parse(USER, CALLING, BACK | {"content": parts}))["input"][2]["output"] == "12 00"


def test_it_hands_on_the_callers_own_instructions_unfiltered() -> None:
    system = {"role": "system", "content": "You are <b>Max</b>."}
    developer = {"role": "developer", "content": "Be brief."}

    read = document(parse(system, developer, USER))

    assert read["instructions"][1:] == ["You are <b>Max</b>.\nBe brief."]
    assert [item["role"] for item in read["input"]] == ["user"]


def test_it_tells_attachments_by_their_markers() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/sky.png"}}

    request = parse({"role": "user", "content": [{"type": "text", "text": "What is"}, picture]})

    assert document(request)["input"][0]["content"] == "What is [Attached file: sky.png]"
    assert [one.name for one in request.attachments] == ["sky.png"]


REFUSED: list[tuple[list[Json], Json, str]] = [
    ([], {"tools": [{"type": "function"}]}, "tools"),
    ([], {"tools": "x"}, "tools"),
    ([], {"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools"),
    ([], {"tools": [CLOCK, CLOCK]}, "tools"),
    ([], {"tool_choice": "any"}, "tool_choice"),
    ([], {"tool_choice": {"type": "function", "name": "clock"}}, "tool_choice"),
    ([], {"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ([], {"tools": [], "tool_choice": "required"}, "tool_choice"),
    ([], {"functions": [{"name": "f"}]}, "tools"),
    ([USER, CALLING, BACK], {"tools": None}, "tools"),
    ([USER, CALLING], {}, "messages"),
    ([BACK], {}, "messages"),
    ([USER, CALLING, BACK, BACK], {}, "messages"),
    ([USER, CALLING, CALLING, BACK], {}, "messages"),
    ([USER, CALLING | {"tool_calls": [CALL | {"type": "custom"}]}, BACK], {}, "messages"),
    ([USER, CALLING | {"tool_calls": "x"}, BACK], {}, "messages"),
    ([USER, CALLING | {"tool_calls": [CALL | {"function": {"name": "clock"}}]}, BACK], {}, "messages"),
    ([USER, CALLING | {"tool_calls": [CALL | {"id": ""}]}, BACK], {}, "messages"),
    ([USER | {"tool_calls": [CALL]}, BACK], {}, "messages"),
    ([USER, CALLING, BACK | {"tool_call_id": None}], {}, "messages"),
    ([USER, CALLING, {"role": "tool", "tool_call_id": "call_1"}], {}, "messages"),
    ([USER, CALLING, BACK | {"content": [{"type": "image_url", "image_url": "https://a"}]}], {}, "input"),
    ([{"role": "user", "content": "x" * 96_000}], {}, "messages"),
    ([USER, {"role": "assistant", "content": "Noon"}], {}, "messages"),
]


@pytest.mark.parametrize(("messages", "members", "param"), REFUSED)
def test_it_refuses_what_does_not_fit_and_names_it(messages: list[Json], members: Json, param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(*messages, **members)

    assert refused.value.param == param


ANSWERS: list[BridgeAnswer] = [
    Spoken("Noon."),
    Called((FunctionCall("call_1", "clock", "{}"),)),
    Called((FunctionCall("call_1", "clock", '{"zone":"UTC"}'), FunctionCall("call_2", "clock", "{}"))),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_it_tells_an_answer_in_a_form_that_every_check_passes(answer: BridgeAnswer) -> None:
    body = whole(ChatHead("chatcmpl-1", NOW, "gpt"), answer, 40, {"sandbox": True})

    WHOLE.validate_json(body, strict=True)
    assert faults(CHAT.run(ChatBody(json.loads(body), NOW))) == []
    assert json.loads(body)["sonde"] == {"sandbox": True}


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("answer", ANSWERS)
def test_it_streams_an_answer_in_a_form_that_every_check_passes(
    answer: BridgeAnswer, include_usage: bool
) -> None:
    body = streamed(ChatHead("chatcmpl-1", NOW, "gpt", include_usage), answer, 40, {})
    stream = ChatStream.of(body, include_usage=include_usage)

    assert faults(STREAM.run(stream)) == []
    for chunk in stream.chunks:
        CHUNK.validate_python(chunk, strict=True)
