"""What is attached, in the words of each upstream that takes it in its request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portal.wire.fields import Fields
from proxy.protocol.chat_messages import Attachment
from research.protocol import wire_agent, wire_responses, wire_sonar
from research.protocol.outcome import Attached, Earlier, Options, Order
from research.protocol.sonar import parse_job

PICTURE = Attached("moon.png", is_picture=True, content_type="image/png", data="eA==")
DOCUMENT = Attached("a.pdf", content_type="application/pdf", data="eQ==")
FAR_PICTURE = Attached("b.png", is_picture=True, url="https://a.org/b.png")
FAR_DOCUMENT = Attached("c.pdf", url="https://a.org/c.pdf")
ORDER = Order("Why?", Options(attachments=("sha256:1",)), {}, "key-1", attached=(PICTURE, DOCUMENT))
FAR = replace(ORDER, attached=(FAR_PICTURE, FAR_DOCUMENT))
WORDS = {"type": "input_text", "text": "Why?"}
INLINE = [
    WORDS,
    {"type": "input_image", "image_url": "data:image/png;base64,eA=="},
    {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,eQ=="},
]
BY_ADDRESS = [
    WORDS,
    {"type": "input_image", "image_url": "https://a.org/b.png"},
    {"type": "input_file", "file_url": "https://a.org/c.pdf"},
]


def of_agent(order: Order) -> tuple[Any, tuple[str, ...]]:
    body, ignored = wire_agent.build_request(order)
    return body["input"], ignored


def of_responses(order: Order) -> tuple[Any, tuple[str, ...]]:
    body, ignored = wire_responses.build_request(order, "o3")
    return body["input"], ignored


@pytest.mark.parametrize("built", [of_agent, of_responses])
@pytest.mark.parametrize(("order", "parts"), [(ORDER, INLINE), (FAR, BY_ADDRESS)])
def test_it_becomes_parts_of_the_question(built: Any, order: Order, parts: list[Any]) -> None:
    message, ignored = built(order)
    assert (message, ignored) == ([{"type": "message", "role": "user", "content": parts}], ())


@pytest.mark.parametrize("built", [of_agent, of_responses])
def test_it_comes_with_the_last_question_only(built: Any) -> None:
    items, _ = built(replace(ORDER, earlier=Earlier("And?", "So.")))
    assert [item["content"] for item in items] == ["And?", "So.", INLINE]


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        (
            ORDER,
            [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
                {"type": "file_url", "file_url": {"url": "eQ=="}, "file_name": "a.pdf"},
            ],
        ),
        (
            FAR,
            [
                {"type": "image_url", "image_url": {"url": "https://a.org/b.png"}},
                {"type": "file_url", "file_url": {"url": "https://a.org/c.pdf"}, "file_name": "c.pdf"},
            ],
        ),
    ],
)
def test_it_becomes_parts_of_sonars_message(order: Order, parts: list[Any]) -> None:
    body, ignored = wire_sonar.build_request(order)
    [message] = body["request"]["messages"]
    assert message == {"role": "user", "content": [{"type": "text", "text": "Why?"}, *parts]}
    assert ignored == ()


@pytest.mark.parametrize(
    ("part", "attachment"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://a.org/b.png"}},
            Attachment("b.png", url="https://a.org/b.png", is_picture=True),
        ),
        (
            {"type": "file_url", "file_url": {"url": "https://a.org/c"}, "file_name": "c.pdf"},
            Attachment("c.pdf", url="https://a.org/c"),
        ),
        (
            {"type": "file_url", "file_url": {"url": "eA=="}, "file_name": "c.txt"},
            Attachment("c.txt", data="eA=="),
        ),
        ({"type": "pdf_url", "pdf_url": {"url": "JVBERg=="}}, Attachment("document.pdf", data="JVBERg==")),
        (
            {"type": "file_url", "file_url": "data:text/plain;base64,eA=="},
            Attachment("file", data="data:text/plain;base64,eA=="),
        ),
    ],
)
def test_it_is_read_from_sonars_messages(part: dict[str, Any], attachment: Attachment) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Why?"}, part]}]

    request = parse_job(Fields({"request": {"model": "sonar-deep-research", "messages": messages}}), {})

    assert request.attached == (attachment,)
    assert request.options.attachments == (attachment.reference,)
