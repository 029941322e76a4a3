"""The list form of `input` (agent-api §2)."""

from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from research.protocol.agent import parse_run_request
from research.protocol.turns import Input, read_input


def read(items: list[Any]) -> Input:
    return read_input(Fields({"input": items}))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_it_joins_what_the_user_said() -> None:
    items = [
        user("First."),
        user([{"type": "input_text", "text": "Second."}, {"type": "input_text", "text": "Third."}]),
    ]
    assert read(items).question == "First.\n\nSecond.\n\nThird."


def test_it_moves_system_and_developer_items_to_the_instructions() -> None:
    items = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "In French."},
        user("Why?"),
    ]
    assert read(items) == Input("Why?", ("Be brief.", "In French."))
    request = parse_run_request(Fields({"input": items, "instructions": "Cite."}), {})
    assert request.options.instructions == "Cite.\n\nBe brief.\n\nIn French."


def test_it_tells_which_items_ask_nothing() -> None:
    items = [
        {"role": "assistant", "content": "Earlier answer."},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "message", "role": "user", "content": "Why?"},
    ]
    assert read(items) == Input("Why?", ignored=("input[0]", "input[1]"))


@pytest.mark.parametrize(
    ("items", "param", "message"),
    [
        ([], "input", "input is required"),
        ([user("")], "input", "input is required"),
        ([{"role": "system", "content": "Be brief."}], "input", "input is required"),
        (["Why?"], "input[0]", "input[0] must be an object"),
        (
            [{"content": "Why?"}],
            "input[0].role",
            "input[0].role must be one of: user, assistant, system, developer",
        ),
        ([{"role": 1}], "input[0].role", "input[0].role must be a string"),
        ([user(None)], "input[0].content", "input[0].content must be a string"),
        ([user("a\0")], "input[0].content", "input[0].content must not contain NUL characters"),
        ([user("ok"), user([3])], "input[1].content[0]", "input[1].content[0] must be an object"),
        (
            [user([{"type": "input_image", "image_url": "x"}])],
            "input[0].content[0].file_id",
            "input[0].content[0].file_id is required: research takes files of /v1/files",
        ),
        (
            [user([{"type": "input_audio", "data": "x"}])],
            "input[0].content[0].type",
            "input[0].content[0].type must be input_text, input_file or input_image",
        ),
        (
            [user([{"type": "input_text", "text": 4}])],
            "input[0].content[0].text",
            "input[0].content[0].text must be a string",
        ),
        ([user("x" * 60_000), user("y" * 60_000)], "input", "input must be at most 100,000 characters"),
        ([user("x")] * 501, "input", "input must have at most 500 entries"),
    ],
)
def test_it_names_the_item_that_is_wrong(items: list[Any], param: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(items)
    assert (caught.value.param, caught.value.message) == (param, message)


def test_it_takes_each_attached_file_once_and_in_order() -> None:
    parts = [{"type": "input_file", "file_id": "file-b"}, {"type": "input_image", "file_id": "file-a"}]
    items = [user([*parts, {"type": "input_text", "text": "Why?"}]), user(parts)]
    asked = parse_run_request(Fields({"input": items}), {})
    assert (asked.question, asked.options.attachments) == ("Why?", ("file-b", "file-a"))
