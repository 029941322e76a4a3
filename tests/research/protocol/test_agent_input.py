"""The list form of `input` (agent-api §2)."""

from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from proxy.protocol.chat_messages import Attachment
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
            [user([{"type": "input_image"}])],
            "input",
            "An image_url part needs the address of its image.",
        ),
        (
            [user([{"type": "input_file", "file_id": "file-a", "file_data": "eA=="}])],
            "input",
            "A file part needs exactly one of file_data, file_id and file_url.",
        ),
        (
            [user([{"type": "input_image", "file_id": "file-a", "image_url": "https://a.org/b.png"}])],
            "input",
            "An image has both image_url and file_id: send one of them.",
        ),
        (
            [{"role": "system", "content": [{"type": "input_file", "file_id": "file-a"}]}, user("x")],
            "input[0].content",
            "input[0].content has an attachment, which only a user's can have",
        ),
        (
            [user([{"type": "input_audio", "data": "x"}])],
            "input[0].content[0].type",
            "input[0].content[0].type must be text, or one of: input_file, input_image",
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


def test_it_takes_what_comes_inline_and_by_address() -> None:
    data = "data:image/png;base64,eA=="
    parts = [
        {"type": "input_image", "image_url": data},
        {"type": "input_image", "image_url": "https://a.org/b.png", "detail": "low"},
        {"type": "input_file", "filename": "c.txt", "file_data": "eA=="},
        {"type": "input_file", "file_url": "https://a.org/d.pdf"},
        {"type": "input_text", "text": "Why?"},
    ]

    asked = parse_run_request(Fields({"input": [user(parts), user(parts[:1])]}), {})

    assert asked.attached == (
        Attachment("image", data=data, is_picture=True),
        Attachment("b.png", url="https://a.org/b.png", is_picture=True),
        Attachment("c.txt", data="eA=="),
        Attachment("d.pdf", url="https://a.org/d.pdf"),
    )
    digests = [asked.attached[place].fingerprint for place in (0, 2)]
    assert asked.options.attachments == (
        f"sha256:{digests[0]}",
        "https://a.org/b.png",
        f"sha256:{digests[1]}",
        "https://a.org/d.pdf",
    )
