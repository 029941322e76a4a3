from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.conformance import chat_format
from portal.wire.conformance.chat import CHAT, ChatBody
from portal.wire.conformance.chat_format import Answer, Streamed, leftover
from portal.wire.conformance.chat_stream import STREAM, ChatStream
from portal.wire.conformance.checks import faults
from tests.portal.wire.conformance.judging import Change, changed, drop, fails, passes, put, verdict

Json = dict[str, Any]
NOW = 1_800_000_000
CITED: Json = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 5, "url": "https://example.org/", "title": "A"},
}
GOOD: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": NOW,
    "model": "gpt",
    "system_fingerprint": None,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None, "annotations": [CITED]},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
CALL: Json = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
CHOICE = ("choices", 0)
MESSAGE = (*CHOICE, "message")
CALLING = changed(
    GOOD,
    lambda body: (
        put(*MESSAGE, to={"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]})(body),
        put(*CHOICE, "finish_reason", to="tool_calls")(body),
    ),
)
BAD: list[tuple[str, Json, Change]] = [
    ("C1", GOOD, put("id", to="cmpl-1")),
    ("C2", GOOD, put("object", to="chat.completion.chunk")),
    ("C3", GOOD, put("created", to=NOW - 100_000)),
    ("C3", GOOD, put("created", to=str(NOW))),
    ("C4", GOOD, put("model", to="")),
    ("C5", GOOD, lambda body: body["choices"].append(body["choices"][0])),
    ("C5", GOOD, put("choices", to=[])),
    ("C6", GOOD, put(*CHOICE, "index", to=1)),
    ("C7", GOOD, put(*MESSAGE, "role", to="user")),
    ("C8", GOOD, put(*MESSAGE, "content", to=None)),
    ("C8", GOOD, put(*MESSAGE, "content", to=[])),
    ("C9", GOOD, drop(*MESSAGE, "refusal")),
    ("C10", GOOD, drop(*CHOICE, "logprobs")),
    ("C11", GOOD, put(*CHOICE, "finish_reason", to="end")),
    ("C11", GOOD, put(*CHOICE, "finish_reason", to="tool_calls")),
    ("C11", CALLING, put(*CHOICE, "finish_reason", to="stop")),
    ("C12", GOOD, put("usage", "total_tokens", to=4)),
    ("C12", GOOD, put("usage", "prompt_tokens", to=1.0)),
    ("C12", GOOD, put("usage", to=None)),
    ("C13", CALLING, put(*MESSAGE, "tool_calls", 0, "function", "arguments", to="{")),
    ("C13", CALLING, put(*MESSAGE, "tool_calls", 0, "function", "arguments", to={})),
    ("C14", CALLING, put(*MESSAGE, "tool_calls", to=[CALL, CALL])),
    ("C15", GOOD, put(*MESSAGE, "annotations", 0, "url_citation", "end_index", to=6)),
    ("C15", GOOD, put(*MESSAGE, "annotations", 0, "url_citation", "url", to="/a")),
    ("C15", GOOD, put(*MESSAGE, "annotations", 0, to={"type": "url_citation", "url": "https://example.org"})),
    ("C16", GOOD, drop("system_fingerprint")),
]


def test_it_passes_good_bodies() -> None:
    plain = passes(CHAT, ChatBody(GOOD, NOW))
    called = passes(CHAT, ChatBody(CALLING, NOW))

    assert plain | {"C13", "C14"} == called == {check.id for check in CHAT.checks}


@pytest.mark.parametrize(
    ("id", "good", "change"), BAD, ids=[f"{case[0]}-{at}" for at, case in enumerate(BAD)]
)
def test_it_fails_bad_bodies(id: str, good: Json, change: Change) -> None:
    fails(CHAT, ChatBody(changed(good, change), NOW), id)


def test_it_has_a_bad_body_for_each_check() -> None:
    assert {id for id, _, _ in BAD} == {check.id for check in CHAT.checks}


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*GOOD, "message", "index", "delta", "error", "content"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(ANY_JSON)
def test_it_judges_any_json(body: Any) -> None:
    stream = ChatStream.of(f"data: {json.dumps(body)}\n\n".encode())

    assert faults(CHAT.run(ChatBody(body, NOW)))
    assert faults(STREAM.run(stream))
    assert chat_format.PLAIN.run(Answer(body, "", NOW))
    assert chat_format.STREAM.run(Streamed(stream, "", NOW))


# Streams


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": NOW,
        "model": "gpt",
        "system_fingerprint": None,
        "choices": [choice],
        **more,
    }


def called(index: int, arguments: str, **more: Any) -> Json:
    return {"tool_calls": [{"index": index, **more, "function": {"arguments": arguments}}]}


def begun(index: int, name: str = "f") -> Json:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}


ROLE = chunk({"role": "assistant"})
PIECES: list[Any] = [ROLE, chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop"), "[DONE]"]
FUNCTIONS: list[Any] = [
    ROLE,
    *(chunk(one) for one in (begun(0), called(0, '{"a"'), called(0, ":1}"), begun(1), called(1, "{}"))),
    chunk({}, "tool_calls"),
    "[DONE]",
]
FAILED: list[Any] = [
    ROLE,
    chunk({"content": "Hel"}),
    {"error": {"message": "no", "type": "upstream_error", "param": None, "code": None}},
]
USED: Json = {**chunk({}), "choices": [], "usage": GOOD["usage"]}
COUNTED: list[Any] = [*({**one, "usage": None} for one in PIECES[:-1]), USED, "[DONE]"]


def stream(chunks: list[Any], **known: Any) -> ChatStream:
    told = [one if isinstance(one, str) else json.dumps(one) for one in chunks]
    return ChatStream.of("".join(f"data: {one}\n\n" for one in told).encode(), **known)


def test_it_passes_good_streams() -> None:
    plain = passes(STREAM, stream(PIECES, plain="Hello"))
    assert plain == {f"CS{number}" for number in (*range(1, 9), 10, 12)}
    assert passes(STREAM, stream(FUNCTIONS)) == plain - {"CS10"} | {"CS9"}
    assert passes(STREAM, stream(COUNTED, include_usage=True)) == plain - {"CS10"}
    assert passes(STREAM, stream(FAILED)) == {f"CS{number}" for number in (1, 3, 4, 5, 7, 11, 12)}


BAD_STREAMS: list[tuple[str, list[Any], Json]] = [
    ("CS1", [*PIECES[:1], "{", *PIECES[1:]], {}),
    ("CS1", [*PIECES[:1], "[]", *PIECES[1:]], {}),
    ("CS1", [], {}),
    ("CS2", PIECES[:-1], {}),
    ("CS2", [*PIECES, "[DONE]"], {}),
    ("CS2", [*PIECES[:2], "[DONE]", *PIECES[2:4]], {}),
    ("CS3", [ROLE | {"id": "chatcmpl-2"}, *PIECES[1:]], {}),
    ("CS3", [ROLE | {"model": "sonnet"}, *PIECES[1:]], {}),
    ("CS4", PIECES[1:], {}),
    ("CS5", [ROLE, *PIECES], {}),
    ("CS6", [*PIECES[:3], "[DONE]"], {}),
    ("CS6", [*PIECES[:4], *PIECES[3:]], {}),
    ("CS6", [*PIECES[:4], chunk({}), "[DONE]"], {}),
    ("CS7", [*PIECES[:4], chunk({"content": "!"}), "[DONE]"], {}),
    ("CS8", COUNTED, {}),
    ("CS8", PIECES, {"include_usage": True}),
    ("CS8", [*PIECES[:-1], USED, "[DONE]"], {"include_usage": True}),
    ("CS9", [ROLE, chunk(begun(1)), *PIECES[3:]], {}),
    ("CS9", [ROLE, chunk(begun(0)), chunk(called(0, "{")), *PIECES[3:]], {}),
    ("CS9", [ROLE, chunk(called(0, "{}")), *PIECES[3:]], {}),
    ("CS9", [ROLE, chunk(begun(0)), chunk(called(0, "{}", id="call_0")), *PIECES[3:]], {}),
    ("CS10", PIECES, {"plain": "Hello!"}),
    ("CS11", [*FAILED, "[DONE]"], {}),
    ("CS11", [*FAILED, chunk({})], {}),
    ("CS11", [ROLE, {"error": {"message": "no"}}], {}),
]


@pytest.mark.parametrize(("id", "chunks", "known"), BAD_STREAMS)
def test_it_fails_bad_streams(id: str, chunks: list[Any], known: Json) -> None:
    fails(STREAM, stream(chunks, **known), id)


def test_it_fails_a_stream_that_names_its_events() -> None:
    named = b"".join(b"event: chunk\ndata: " + json.dumps(one).encode() + b"\n\n" for one in PIECES[:-1])

    fails(STREAM, ChatStream.of(named), "CS12")


def test_it_has_a_bad_stream_for_each_check() -> None:
    assert {id for id, _, _ in BAD_STREAMS} | {"CS12"} == {check.id for check in STREAM.checks}


# The rows of the debug page


def row(body: Any, content_type: str = "application/json") -> Answer:
    return Answer(body, content_type, NOW)


def streamed(chunks: list[Any], content_type: str = "text/event-stream") -> Streamed:
    return Streamed(stream(chunks), content_type, NOW)


def test_it_shows_more_than_twenty_rows_for_each_good_answer() -> None:
    calls = {f"P{number}" for number in range(19, 26)}
    plain = passes(chat_format.PLAIN, row(GOOD))
    assert plain == {check.id for check in chat_format.PLAIN.checks} - calls
    assert passes(chat_format.PLAIN, row(CALLING)) == plain | calls

    fragments = {f"S{number}" for number in range(21, 26)}
    told = passes(chat_format.STREAM, streamed(PIECES))
    assert told == {check.id for check in chat_format.STREAM.checks} - fragments
    assert passes(chat_format.STREAM, streamed(FUNCTIONS)) == told | fragments
    assert passes(chat_format.STREAM, streamed(COUNTED)) == told
    assert min(len(plain), len(told)) > 20


BAD_ROWS: list[tuple[str, Json, Change]] = [
    ("P1", GOOD, put("id", to="x")),
    ("P2", GOOD, put("object", to="x")),
    ("P3", GOOD, put("created", to="now")),
    ("P4", GOOD, put("model", to="")),
    ("P5", GOOD, drop("system_fingerprint")),
    ("P6", GOOD, put("choices", to=[])),
    ("P7", GOOD, put(*CHOICE, "index", to=1)),
    ("P8", GOOD, drop(*CHOICE, "logprobs")),
    ("P9", GOOD, put(*CHOICE, "finish_reason", to=None)),
    ("P10", GOOD, drop(*MESSAGE)),
    ("P11", GOOD, put(*MESSAGE, "role", to="user")),
    ("P12", GOOD, put(*MESSAGE, "content", to=5)),
    ("P13", GOOD, put(*MESSAGE, "content", to="")),
    ("P14", GOOD, drop("usage")),
    ("P15", GOOD, put("usage", "prompt_tokens", to="1")),
    ("P16", GOOD, drop("usage", "completion_tokens")),
    ("P17", GOOD, put("usage", "total_tokens", to=None)),
    ("P18", GOOD, put("usage", "total_tokens", to=9)),
    ("P19", CALLING, put(*MESSAGE, "tool_calls", to=[])),
    ("P20", CALLING, drop(*MESSAGE, "tool_calls", 0, "id")),
    ("P21", CALLING, put(*MESSAGE, "tool_calls", 0, "type", to="custom")),
    ("P22", CALLING, put(*MESSAGE, "tool_calls", 0, "function", "name", to="")),
    ("P23", CALLING, put(*MESSAGE, "tool_calls", 0, "function", "arguments", to={})),
    ("P24", CALLING, put(*MESSAGE, "tool_calls", 0, "function", "arguments", to="{")),
    ("P25", CALLING, put(*MESSAGE, "content", to="Calling")),
    ("P27", GOOD, put(*MESSAGE, "reasoning_content", to=[])),
    ("P28", GOOD, put(*MESSAGE, "content", to="It is so[3].")),
    ("P29", GOOD, put("created", to=NOW + 3600)),
]


@pytest.mark.parametrize(("id", "good", "change"), BAD_ROWS, ids=[case[0] for case in BAD_ROWS])
def test_it_marks_bad_rows_of_a_plain_answer(id: str, good: Json, change: Change) -> None:
    fails(chat_format.PLAIN, row(changed(good, change)), id)


def test_it_marks_a_wrong_content_type() -> None:
    fails(chat_format.PLAIN, row(GOOD, "text/html"), "P26")
    fails(chat_format.STREAM, streamed(PIECES, "application/json"), "S26")


def test_it_has_a_bad_answer_for_each_row_of_a_plain_answer() -> None:
    assert {id for id, _, _ in BAD_ROWS} | {"P26"} == {check.id for check in chat_format.PLAIN.checks}


def told(change: Change, *, of: list[Any] = PIECES, at: int = 0) -> list[Any]:
    return [*of[:at], changed(of[at], change), *of[at + 1 :]]


TOOL = ("choices", 0, "delta", "tool_calls", 0)
BAD_STREAMED: list[tuple[str, list[Any]]] = [
    ("S1", ["[DONE]"]),
    ("S2", told(put("object", to="x"), at=2)),
    ("S3", told(put("choices", to=None), at=1)),
    ("S4", told(put("choices", to=[]))),
    ("S5", told(put("id", to="x"))),
    ("S6", told(put("object", to="x"))),
    ("S7", told(drop("created"))),
    ("S8", told(put("model", to=""))),
    ("S9", told(drop("system_fingerprint"))),
    ("S10", told(put("choices", to={}))),
    ("S11", told(put(*CHOICE, "index", to=1))),
    ("S12", told(put(*CHOICE, "delta", to=None))),
    ("S13", told(put(*CHOICE, "delta", to={}))),
    ("S14", told(drop(*CHOICE, "logprobs"))),
    ("S15", told(put(*CHOICE, "finish_reason", to="stop"))),
    ("S16", PIECES[:3]),
    ("S17", told(put(*CHOICE, "delta", to={"content": "!"}), at=3)),
    ("S18", told(put("id", to="chatcmpl-2"), at=1)),
    ("S19", [PIECES[0], *PIECES[3:]]),
    ("S20", PIECES[:-1]),
    ("S21", told(drop(*TOOL, "index"), of=FUNCTIONS, at=2)),
    ("S22", told(drop(*TOOL, "id"), of=FUNCTIONS, at=1)),
    ("S23", told(put(*TOOL, "type", to="custom"), of=FUNCTIONS, at=1)),
    ("S24", told(drop(*TOOL, "function", "name"), of=FUNCTIONS, at=1)),
    ("S25", told(put(*TOOL, "function", "arguments", to={}), of=FUNCTIONS, at=2)),
    ("S27", told(put(*CHOICE, "delta", "reasoning_content", to=5), at=1)),
    ("S28", told(put(*CHOICE, "delta", "content", to="[1]"), at=1)),
    ("S29", told(put("created", to=NOW + 3600))),
    ("S30", told(put("model", to="sonnet"), at=1)),
    ("S31", [*PIECES[:4], *PIECES[3:]]),
    ("S31", [*PIECES[:4], chunk({"content": "!"}), "[DONE]"]),
]


@pytest.mark.parametrize(("id", "chunks"), BAD_STREAMED, ids=[case[0] for case in BAD_STREAMED])
def test_it_marks_bad_rows_of_a_stream(id: str, chunks: list[Any]) -> None:
    fails(chat_format.STREAM, streamed(chunks), id)


def test_it_has_a_bad_stream_for_each_row() -> None:
    assert {id for id, _ in BAD_STREAMED} | {"S26"} == {check.id for check in chat_format.STREAM.checks}


def test_it_only_warns_of_what_is_no_fault() -> None:
    without = changed(GOOD, drop("system_fingerprint"))

    assert verdict(chat_format.PLAIN, row(without), "P5").verdict == "WARN"
    assert faults(chat_format.PLAIN.run(row(without))) == []


@pytest.mark.parametrize(
    ("content", "shows"),
    [
        ("So[1].", True),
        ("`a[0]`", False),
        ("```\na[0]\n```", False),
        ("[note] [1a]", False),
        ("a [2][3]", True),
    ],
)
def test_it_finds_marks_outside_of_code(content: str, shows: bool) -> None:
    assert (leftover(content) is not None) == shows
