from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.chat_messages import Attachment
from proxy.protocol.sonar import UNHONOURED, parse_sonar

ASKED: dict[str, Any] = {"model": "sonar", "messages": [{"role": "user", "content": "Why?"}]}


def refused(change: dict[str, Any]) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse_sonar(ASKED | change)
    return caught.value


@pytest.mark.parametrize(
    ("name", "model", "thinking"),
    [
        ("sonar", "sonar", False),
        ("sonar-pro", "sonar", False),
        ("sonar-reasoning", "gpt", True),
        ("sonar-reasoning-pro", "gpt", True),
        ("sonnet", "sonnet", False),
        ("sonar-deep-research", "sonar-deep-research", False),
    ],
)
def test_it_knows_which_model_a_name_means(name: str, model: str, thinking: bool) -> None:
    request = parse_sonar(ASKED | {"model": f" {name} "})
    assert (request.model, request.chat.model, request.chat.thinking) == (name, model, thinking)


def test_it_reads_a_conversation() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
    ]
    request = parse_sonar(ASKED | {"messages": messages}).chat
    assert [(one.role, one.text) for one in request.messages] == [("system", "Be brief."), ("user", "Why?")]


@pytest.mark.parametrize("kind", ["file_url", "pdf_url"])
@pytest.mark.parametrize("address", ["https://a.org/x.pdf", {"url": "https://a.org/x.pdf"}])
def test_it_takes_files_by_their_address(kind: str, address: Any) -> None:
    part = {"type": kind, kind: address, "file_name": "paper.pdf"}
    request = parse_sonar(ASKED | {"messages": [{"role": "user", "content": [part]}]}).chat
    assert request.attachments == (Attachment("paper.pdf", url="https://a.org/x.pdf"),)


@pytest.mark.parametrize(
    ("asked", "stream", "mode"),
    [
        ({}, False, "full"),
        ({"stream": True}, True, "full"),
        ({"stream": True, "stream_mode": "concise"}, True, "concise"),
    ],
)
def test_it_knows_how_to_stream(asked: dict[str, Any], stream: bool, mode: str) -> None:
    request = parse_sonar(ASKED | asked)
    assert (request.chat.stream, request.stream_mode) == (stream, mode)


@pytest.mark.parametrize(
    ("mode", "sources", "ignored"),
    [
        (None, ("web",), ()),
        ("web", ("web",), ()),
        ("academic", ("scholar",), ()),
        ("sec", ("web",), ("search_mode",)),
    ],
)
def test_it_searches_where_it_is_told(mode: str | None, sources: Any, ignored: Any) -> None:
    chat = parse_sonar(ASKED | {"search_mode": mode}).chat
    assert (chat.sources, chat.ignored) == (sources, ignored)


@pytest.mark.parametrize(
    ("filter_", "recency", "ignored"),
    [
        (None, None, ()),
        ("day", "DAY", ()),
        ("week", "WEEK", ()),
        ("month", "MONTH", ()),
        ("year", "YEAR", ()),
        ("hour", None, ("search_recency_filter",)),
    ],
)
def test_it_searches_what_is_recent_enough(filter_: str | None, recency: Any, ignored: Any) -> None:
    chat = parse_sonar(ASKED | {"search_recency_filter": filter_}).chat
    assert (chat.recency, chat.ignored) == (recency, ignored)


def test_it_lets_an_effort_think() -> None:
    assert parse_sonar(ASKED | {"reasoning_effort": "high"}).chat.thinking


def test_it_asks_in_the_caller_s_language() -> None:
    assert parse_sonar(ASKED | {"language_preference": "de"}).chat.language == "de"


@pytest.mark.parametrize("name", UNHONOURED)
def test_it_lists_what_a_web_session_has_no_use_for(name: str) -> None:
    assert parse_sonar(ASKED | {name: 1}).chat.ignored == (name,)
    assert parse_sonar(ASKED | {name: False}).chat.ignored == ()


def test_it_ignores_fields_that_nobody_knows() -> None:
    assert parse_sonar(ASKED | {"flavour": "sweet"}).chat.ignored == ()


@pytest.mark.parametrize(
    "harmless",
    [
        {"tools": []},
        {"tool_choice": "auto"},
        {"response_format": {"type": "text"}},
        {"response_format": None},
    ],
)
def test_it_lets_harmless_values_pass(harmless: dict[str, Any]) -> None:
    assert parse_sonar(ASKED | harmless).chat.ignored == ()


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"model": " "}, "model"),
        ({"model": 7}, "model"),
        ({"model": "x" * 201}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": "Why?"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["Why?"]}, "messages"),
        ({"messages": [{"role": "robot", "content": "Why?"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "content"),
        ({"messages": [{"role": "user", "content": [{"type": "pdf_url"}]}]}, "input"),
        ({"messages": [{"role": "user", "content": [{}] * 501}]}, "content"),
        ({"stream": "yes"}, "stream"),
        ({"stream_mode": "terse"}, "stream_mode"),
        ({"search_mode": "news"}, "search_mode"),
        ({"search_recency_filter": "decade"}, "search_recency_filter"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"language_preference": 7}, "language"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": "text"}, "response_format"),
    ],
)
def test_it_names_the_field_that_is_wrong(change: dict[str, Any], param: str) -> None:
    assert refused(change).param == param


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "file_url", "pdf_url", "video_url"])},
    optional=dict.fromkeys(("text", "image_url", "file_url", "pdf_url", "file_name"), JSON),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "assistant", "tool"])},
    optional={"content": JSON | st.lists(PART, max_size=3), "tool_calls": JSON},
)
NAMES = (
    "model",
    "messages",
    "stream",
    "stream_mode",
    "search_mode",
    "tools",
    "tool_choice",
    "response_format",
)


@given(
    st.dictionaries(st.sampled_from((*NAMES, *UNHONOURED)), JSON),
    st.lists(MESSAGE, max_size=3) | JSON,
    st.booleans(),
)
def test_it_reads_or_refuses_whatever_json_arrives(
    request: dict[str, Any], messages: Any, with_a_model: bool
) -> None:
    asked = {**request, "messages": messages} | ({"model": "sonar"} if with_a_model else {})
    assert read_or_named(asked)


def read_or_named(request: dict[str, Any]) -> object:
    """The messages, or the field that is wrong."""
    try:
        return parse_sonar(request).chat.messages
    except BadRequest as problem:
        return problem.param
