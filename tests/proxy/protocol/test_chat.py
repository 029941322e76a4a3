from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.chat import IGNORED, ChatRequest, parse_chat, read_body
from proxy.protocol.chat_messages import Attachment, ChatMessage

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]


def each(*values: Any) -> tuple[Any, ...]:
    return values


def parse(**members: Any) -> ChatRequest:
    return parse_chat({"messages": HELLO, **members}, "gpt")


def refused(**members: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse(**members)
    return caught.value


def test_it_fills_in_what_is_absent() -> None:
    assert parse() == ChatRequest("gpt", (ChatMessage("user", "Hello"),))


def test_it_takes_every_member_it_knows() -> None:
    request = parse(
        model=" sonnet ",
        stream=True,
        thinking=True,
        sources=["social", "web"],
        language="de-DE",
        stream_options={"include_usage": True, "include_obfuscation": False},
    )

    assert (request.model, request.stream, request.thinking) == ("sonnet", True, True)
    assert (request.sources, request.language, request.include_usage) == (("web", "social"), "de-DE", True)


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [
        (None, False),
        ("none", False),
        *((word, True) for word in ("minimal", "low", "medium", "high", "xhigh", "max")),
    ],
)
def test_it_thinks_for_any_effort_but_none(effort: str | None, thinking: bool) -> None:
    assert parse(reasoning_effort=effort).thinking is thinking


def test_it_lets_thinking_stand_beside_no_effort() -> None:
    assert parse(thinking=True, reasoning_effort="none").thinking


ALLOWED: list[dict[str, Any]] = [
    *(
        {name: None}
        for name in ("stream", "thinking", "sources", "language", "stream_options", "tools", "stop")
    ),
    *({name: None} for name in ("temperature", "n", "logprobs", "response_format", "tool_choice", "seed")),
    {"temperature": 1, "top_p": 1.0, "n": 1},
    {"presence_penalty": 0, "frequency_penalty": 0.0},
    {"logprobs": False, "response_format": {"type": "text"}, "stream_options": {}},
    {"tools": [], "functions": [], "tool_choice": "none", "function_call": "auto"},
    {"stream_options": {"include_usage": None}, "modalities": ["text"], "verbosity": "medium"},
    {"somebody": "else's", "max_turns": 3},
]


@pytest.mark.parametrize("members", ALLOWED, ids=str)
def test_it_takes_controls_at_their_only_value(members: dict[str, Any]) -> None:
    assert parse(**members) == parse()


REFUSED: list[tuple[str, Any, str]] = [
    *(("model", value, "model") for value in each(None, "", "  ", 5, ["gpt"], "x" * 201, "a\0b", "\ud800")),
    *(("stream", value, "stream") for value in each("true", 1, [])),
    *(("thinking", value, "thinking") for value in each("yes", 0)),
    *(("reasoning_effort", value, "reasoning_effort") for value in each("huge", "", 3, True, ["low"])),
    *(("sources", value, "sources") for value in each([], "web", ["web", "mail"], [1], [["web"]], {})),
    *(("language", value, "language") for value in each("", " ", 7, "x" * 201, "de\ud800", "de\0")),
    *(("tools", value, "tools") for value in each([{"type": "function"}], "x", {"a": 1})),
    ("functions", [{"name": "f"}], "tools"),
    *(("tool_choice", value, "tool_choice") for value in each("required", {"type": "function"}, 1)),
    ("function_call", {"name": "f"}, "tools"),
    *(("temperature", value, "temperature") for value in each(0, 0.7, 2, "1", True)),
    *(("top_p", value, "top_p") for value in each(0.9, False)),
    *(("n", value, "n") for value in each(0, 2, True)),
    *(("presence_penalty", value, "presence_penalty") for value in each(0.1, 1, False)),
    ("frequency_penalty", -1, "frequency_penalty"),
    *(
        (name, value, name)
        for name in ("max_tokens", "max_completion_tokens")
        for value in each(1, 100_000, 0)
    ),
    *(("stop", value, "stop") for value in each("x", ["x"], [])),
    ("seed", 0, "seed"),
    *(("logit_bias", value, "logit_bias") for value in each({}, {"1": 1})),
    ("top_logprobs", 0, "top_logprobs"),
    ("audio", {"voice": "alloy"}, "audio"),
    *(("modalities", value, "modalities") for value in each(["text", "audio"], [], "text")),
    *(("verbosity", value, "verbosity") for value in each("low", "high")),
    *(("logprobs", value, "logprobs") for value in each(True, 0, "false")),
    *(
        ("response_format", value, "response_format")
        for value in each({"type": "json_object"}, {"type": "text", "strict": True}, "text", {})
    ),
    *(("stream_options", value, "stream_options") for value in each("x", [], {"include_usage": "yes"}, True)),
]


@pytest.mark.parametrize(("name", "value", "param"), REFUSED)
def test_it_refuses_what_it_cannot_honour_and_names_it(name: str, value: Any, param: str) -> None:
    error = refused(**{name: value})

    assert (error.status, error.type, error.param, error.code) == (400, "invalid_request_error", param, None)


ORDER: list[dict[str, Any]] = [
    {"model": 5},
    {"stream": 5},
    {"thinking": 5},
    {"reasoning_effort": 5},
    {"sources": 5},
    {"language": 5},
    {"tools": [1]},
    {"temperature": 5},
    {"max_tokens": 5},
    {"logprobs": 5},
    {"response_format": 5},
    {"stream_options": 5},
    {"messages": 5},
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_it_checks_in_the_order_of_the_contract(first: int) -> None:
    members: dict[str, Any] = {}
    for wrong in ORDER[first:]:
        members |= wrong

    assert refused(**members).param == next(iter(ORDER[first]))


@pytest.mark.parametrize("name", IGNORED)
def test_it_lists_what_it_ignores(name: str) -> None:
    assert parse(**{name: {"some": "thing"}}).ignored == (name,)
    assert parse(**{name: None}).ignored == ()


@pytest.mark.parametrize("body", [None, [], "x", 5, [{"messages": HELLO}]])
def test_it_wants_an_object(body: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_chat(body, "gpt")
    assert caught.value.param is None


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b"nope"])
def test_it_wants_json(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        read_body(raw)


def test_it_reads_json() -> None:
    assert read_body(b'{"messages": []}') == {"messages": []}


BAD_MESSAGES: list[tuple[Any, str]] = [
    *((value, "messages") for value in each(None, [], {}, "x", ["x"], [None])),
    *(
        ([{"role": role, "content": "x"}], "messages")
        for role in each(None, "robot", 5, "tool", "function", ["user"])
    ),
    *(([{"role": role}], "messages") for role in each("user", "system", "developer")),
    ([{"role": "user", "content": None}], "messages"),
    ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], "messages"),
    ([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}], "messages"),
    *(([{"role": "user", "content": value}], "content") for value in each(5, {}, True, [5], ["x"], [{}])),
    ([{"role": "user", "content": [{"type": "text"}]}], "content"),
    ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "content"),
    ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "content"),
    ([{"role": "user", "content": [{"type": ["text"], "text": "x"}]}], "content"),
    *(([{"role": "user", "content": text}], "content") for text in ("a\0b", "a\ud800b")),
    *(
        ([{"role": "user", "content": [{"type": "image_url", "image_url": value}]}], "input")
        for value in each(None, {}, "", 5)
    ),
    *(
        ([{"role": "user", "content": [{"type": "file", "file": value}]}], "input")
        for value in each(None, {}, {"file_id": 5}, {"file_id": "a", "file_url": "b"}, "x")
    ),
    ([{"role": "system", "content": [{"type": "image_url", "image_url": "https://x/y.png"}]}], "input"),
]


@pytest.mark.parametrize(("messages", "param"), BAD_MESSAGES, ids=str)
def test_it_refuses_messages_it_cannot_read(messages: Any, param: str) -> None:
    error = refused(messages=messages)

    assert (error.status, error.param) == (400, param)


def test_it_joins_the_parts_of_a_message() -> None:
    parts = [
        *({"type": kind, "text": kind} for kind in ("text", "input_text", "output_text", "summary_text")),
        {"type": "refusal", "refusal": "no"},
    ]
    request = parse(messages=[{"role": "assistant", "content": parts}, *HELLO])

    assert request.texts[0].text == "text input_text output_text summary_text no"


def test_it_lets_an_assistant_be_silent() -> None:
    messages = [{"role": "assistant", "content": None}, {"role": "assistant"}, *HELLO]

    assert [message.text for message in parse(messages=messages).messages] == ["", "", "Hello"]


ATTACHED: list[tuple[dict[str, Any], Attachment]] = [
    (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        Attachment("image", data="data:image/png;base64,AA==", is_picture=True),
    ),
    (
        {"type": "image_url", "image_url": "https://x.example/a%20b.png?c"},
        Attachment("a b.png", url="https://x.example/a%20b.png?c", is_picture=True),
    ),
    (
        {"type": "image_url", "image_url": "https://x.example/"},
        Attachment("image", url="https://x.example/", is_picture=True),
    ),
    ({"type": "file", "file": {"file_id": "file-1"}}, Attachment("file-1", file_id="file-1")),
    ({"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}}, Attachment("a.pdf", data="AA==")),
    (
        {"type": "file", "file": {"filename": "a.pdf", "file_url": "https://x/y"}},
        Attachment("a.pdf", url="https://x/y"),
    ),
    ({"type": "file", "file": {"file_data": "AA=="}}, Attachment("file", data="AA==")),
    (
        {"type": "file", "file": {"filename": "../]a\n\0b[", "file_data": "AA=="}},
        Attachment(".. a b", data="AA=="),
    ),
]


@pytest.mark.parametrize(("part", "attachment"), ATTACHED, ids=str)
def test_it_leaves_a_marker_for_what_is_attached(part: dict[str, Any], attachment: Attachment) -> None:
    content = [{"type": "text", "text": "Look:"}, part, {"type": "text", "text": "Well?"}]
    request = parse(messages=[{"role": "user", "content": content}])

    assert request.attachments == (attachment,)
    assert request.texts[0].text == f"Look: [Attached file: {attachment.name}] Well?"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "image_url", "file", "url"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([name for wrong in ORDER for name in wrong]), anything), anything)
def test_it_answers_any_json_with_a_request_or_one_clear_error(
    members: dict[str, Any], messages: Any
) -> None:
    try:
        request: ChatRequest | None = parse_chat(members | {"messages": messages}, "gpt")
    except BadRequest:
        request = None

    assert request is None or request.messages
