"""Items of a response, and the object around them, as they are said, stored, listed and framed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response, ResponseItemList
from pydantic import TypeAdapter

from proxy.protocol.chat_messages import Attachment, ChatMessage
from proxy.protocol.conversation import PromptPolicy, prepare
from proxy.protocol.response_input import messages_of
from proxy.protocol.response_object import (
    Head,
    Usage,
    deleted,
    frame,
    list_page,
    message_item,
    reasoning_item,
    search_item,
    text_part,
)
from proxy.protocol.responses import ResponsesRequest, parse_responses

ID = "resp_" + "0" * 32
SCHEMA = {"type": "json_schema", "name": "tide", "schema": {"type": "object"}}


def parsed(**body: Any) -> ResponsesRequest:
    return parse_responses({"input": "When is high tide?", **body}, default_model="gpt")


HISTORY = [
    {"role": "developer", "content": "Be brief."},
    "First",
    {"type": "message", "role": "assistant", "id": "msg_a", "status": "completed", "content": [
        {"type": "output_text", "text": "Yes", "annotations": [{"type": "url_citation"}], "logprobs": []},
        {"type": "refusal", "refusal": "but not that"},
    ]},
    {"type": "reasoning", "id": "rs_a", "summary": []},
    {"type": "web_search_call", "id": "ws_a", "status": "completed", "action": {"type": "search"}},
    {"type": "function_call", "id": "fc_a", "call_id": "call_1", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1",
     "output": [{"type": "input_text", "text": "6"}, {"type": "input_text", "text": "o'clock"}]},
    {"type": "input_message", "role": "user", "content": [
        {"type": "input_text", "text": "And"}, {"type": "text", "text": "then?"}]},
]  # fmt: skip


def test_it_says_each_item_in_the_prompt() -> None:
    assert parsed(input=HISTORY).messages() == (
        ChatMessage("developer", "Be brief."),
        ChatMessage("user", "First"),
        ChatMessage("assistant", "Yes but not that"),
        ChatMessage("user", "[tool output call_1]: 6 o'clock"),
        ChatMessage("user", "And then?"),
    )


def test_it_stores_items_that_are_read_the_same_again() -> None:
    request = parsed(input=HISTORY)
    stored = json.loads(json.dumps(request.input_items(ID)))
    assert messages_of(stored) == request.messages()
    assert parsed(input=stored).input_items(ID) == tuple(stored)


def test_it_gives_items_ids_that_stay_and_differ() -> None:
    items = parsed(input=HISTORY).input_items(ID)
    ids = [item["id"] for item in items]
    assert ids[2] == "msg_a"
    assert len(set(ids)) == len(ids) == 6
    assert items == parsed(input=HISTORY).input_items(ID)
    assert not set(ids) & {item["id"] for item in parsed(input=HISTORY).input_items("resp_1")} - {
        "msg_a",
        "fc_a",
    }


def test_it_lists_items_as_the_sdk_types_them() -> None:
    items = parsed(input=HISTORY).input_items(ID)
    page = list_page(items, has_more=False)
    TypeAdapter(ResponseItemList).validate_python(page)
    assert (page["first_id"], page["last_id"]) == (items[0]["id"], items[-1]["id"])
    assert list_page([], has_more=False)["first_id"] is None


def test_it_keeps_attachments_apart_and_their_bytes_out_of_what_is_stored() -> None:
    data = "data:image/png;base64,iVBORw0KGgo="
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": data, "detail": "auto"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "filename": "tides.pdf", "file_data": "JVBERi0="},
        {"type": "input_file", "file_url": "https://a.example/table.pdf"},
    ]
    request = parsed(input=[{"role": "user", "content": content}])
    assert request.attachments == (
        Attachment("image", data=data, is_picture=True),
        Attachment("file-1", file_id="file-1"),
        Attachment("tides.pdf", data="JVBERi0="),
        Attachment("table.pdf", url="https://a.example/table.pdf"),
    )
    stored = json.dumps([request.input_items(ID), dict(request.echo)])
    assert "iVBORw0KGgo" not in stored
    assert "JVBERi0" not in stored
    assert "[Attached file: tides.pdf]" in stored


def test_it_takes_an_image_out_of_what_a_function_gave() -> None:
    shot = {"type": "input_image", "image_url": "https://a.example/shot.png"}
    request = parsed(input=[{"type": "function_call_output", "call_id": "call_1", "output": [shot]}])
    assert request.attachments == (Attachment("shot.png", url="https://a.example/shot.png", is_picture=True),)


def test_its_prompt_is_one_that_chat_understands() -> None:
    request = parsed(input=HISTORY, text={"format": {"type": "json_object"}})
    conversation = prepare(
        request.chat().texts, PromptPolicy("forward"), request.format_instructions, param="input"
    )
    assert conversation.query == "And then?"
    assert conversation.instructions[-1].startswith("Answer with one JSON object")


REQUEST = {
    "instructions": "Be brief.",
    "metadata": {"job": "7"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": "auto"},
    "temperature": 1,
    "text": {"format": SCHEMA},
    "tool_choice": "auto",
    "tools": [{"type": "web_search"}],
    "top_p": 1.0,
    "user": "ann",
    "background": True,
}


@pytest.mark.parametrize(
    "status", ["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]
)
def test_it_frames_every_status_as_the_sdk_types_it(status: Any) -> None:
    head = Head(ID, 1_790_000_000, "gpt", parsed(**REQUEST).echo, previous="resp_1", conversation="conv_1")
    output = [
        reasoning_item("rs_1", "thought"),
        search_item("ws_1", "completed", "tides", ["https://a.example"]),
        message_item("msg_1", "completed", [text_part("High tide.")]),
    ]
    whole = frame(
        head,
        status,
        output=output,
        completed_at=1_790_000_001 if status == "completed" else None,
        usage=Usage(4, 2, 1),
        error={"code": "server_error", "message": "It broke."} if status == "failed" else None,
        incomplete_reason="max_output_tokens" if status == "incomplete" else None,
    )
    response = TypeAdapter(Response).validate_python(whole)
    assert response.output_text == whole["output_text"] == "High tide."
    assert {name: whole[name] for name in ("metadata", "instructions", "tools", "user", "background")} == {
        name: REQUEST[name] for name in ("metadata", "instructions", "tools", "user", "background")
    }
    assert whole["conversation"] == {"id": "conv_1"}
    assert list(whole) == list(frame(Head(ID, 1, "gpt"), "queued"))


def test_it_frames_a_request_that_said_nothing() -> None:
    whole = frame(Head(ID, 1, "gpt", parsed().echo), "in_progress")
    TypeAdapter(Response).validate_python(whole)
    assert whole["text"] == {"format": {"type": "text"}}
    assert (whole["tool_choice"], whole["tools"], whole["parallel_tool_calls"]) == ("auto", [], True)
    assert (whole["store"], whole["truncation"]) == (True, "disabled")
    assert "sonde" not in whole


def test_it_says_that_a_response_is_gone() -> None:
    assert deleted(ID) == {"id": ID, "object": "response", "deleted": True}
