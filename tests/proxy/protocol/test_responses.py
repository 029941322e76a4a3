from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from proxy.protocol.chat_messages import ChatMessage
from proxy.protocol.response_input import LONGEST_KEPT
from proxy.protocol.responses import ResponsesRequest, parse_responses

ID = "resp_" + "0" * 32
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
SCHEMA = {"type": "json_schema", "name": "tide", "schema": {"type": "object"}}


def parsed(**body: Any) -> ResponsesRequest:
    return parse_responses({"input": "When is high tide?", **body}, default_model="gpt")


def refused(**body: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parsed(**body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "param"),
    [
        *[({name: "true"}, name) for name in ("stream", "background", "store", "parallel_tool_calls")],
        *[({name: 7}, name) for name in ("model", "previous_response_id", "user", "conversation")],
        *[({name: []}, name) for name in ("reasoning", "metadata", "text", "model")],
        ({"model": " "}, "model"),
        ({"model": "m" * 201}, "model"),
        ({"conversation": ""}, "conversation"),
        ({"conversation": {}}, "conversation"),
        ({"conversation": {"id": ""}}, "conversation"),
        ({"conversation": {"id": 1}}, "conversation"),
        ({"instructions": 7}, "instructions"),
        ({"instructions": [7]}, "instructions"),
        ({"instructions": [{"role": "system"}]}, "instructions"),
        ({"tools": {}}, "tools"),
        ({"tools": ["web_search"]}, "tools"),
        ({"tools": [{"type": "file_search"}]}, "tools"),
        ({"tools": [{"type": ["function"]}]}, "tools"),
        ({"tools": [{"type": "web_search"}] * 129}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "none"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "weather"}}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search"}]}, "tool_choice"),
        *[({name: value}, name) for name in ("temperature", "top_p") for value in (0.2, 0, True, "1")],
        ({"max_output_tokens": 100}, "max_output_tokens"),
        ({"truncation": "auto"}, "truncation"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"text": {"format": {}}}, "text.format"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"text": {"format": {**SCHEMA, "strict": True}}}, "text.format"),
        ({"text": {"format": {"type": "json_object", "strict": True}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "tide"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"tools": [WEATHER], "text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tools": [WEATHER], "instructions": ["Be brief."]}, "instructions"),
        ({"background": True, "store": False}, "store"),
        ({"previous_response_id": ID, "conversation": "conv_1"}, "previous_response_id"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {"": ""}}, "metadata"),
        ({"metadata": {"key": "v" * 513}}, "metadata.key"),
        ({"metadata": {"key": 7}}, "metadata.key"),
        ({"include": "reasoning.encrypted_content"}, "include"),
        ({"include": [7]}, "include"),
        ({"sources": []}, "sources"),
        ({"sources": ["library"]}, "sources"),
        ({"language": " "}, "language"),
        ({"sources_footer": "yes"}, "sources_footer"),
        ({"tools": [{**WEATHER, "description": "\ud800"}]}, "tools"),
        ({"tools": [{**WEATHER, "parameters": {"a\0": 1}}]}, "tools"),
        ({"tools": [{**WEATHER, "parameters": {"maximum": 10**30}}]}, "tools"),
        ({"text": {"format": {**SCHEMA, "schema": {"title": "\0"}}}}, "text"),
    ],
)  # fmt: skip
def test_it_names_the_field_that_is_wrong(body: dict[str, Any], param: str) -> None:
    assert refused(**body).param == param


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "  \n",
        [],
        {},
        7,
        [7],
        [[]],
        "a\0b",
        "\ud800",
        [{"role": "user"}],
        [{"role": "user", "content": 7}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [7]}],
        [{"role": "user", "content": ["text"]}],
        [{"role": "user", "content": [{"type": "input_text"}]}],
        [{"role": "user", "content": [{"type": "input_audio", "data": ""}]}],
        [{"role": "user", "content": [{"type": ["input_text"], "text": "a"}]}],
        [{"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}],
        [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 1001}],
        [{"role": "tool", "content": "a"}],
        [{"role": ["user"], "content": "a"}],
        [{"content": "a"}],
        [{"role": "assistant", "content": "Nobody asked."}],
        [{"role": "system", "content": "Be brief."}],
        [{"type": "item_reference", "id": "msg_1"}, "a"],
        [{"type": "reasoning", "summary": []}],
        [{"type": "function_call_output", "output": "7"}],
        [{"type": "function_call_output", "call_id": "call_1"}],
        [{"type": "function_call", "call_id": "call_1", "name": "now"}, "a"],
        [{"role": "user", "content": "a", "id": "x"}, {"role": "user", "content": "b", "id": "x"}],
        [{"role": "user", "content": "a", "id": "x y"}],
        [{"role": "user", "content": "a", "id": 7}],
        [{"role": "user", "content": [{"type": "input_image"}]}],
        [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a", "file_id": "f"}]}],
        [{"role": "user", "content": [{"type": "input_file"}]}],
        [{"role": "user", "content": [{"type": "input_file", "file_id": "f", "file_url": "https://a"}]}],
        [{"role": "system", "content": [{"type": "input_image", "image_url": "https://a/b.png"}]}, "a"],
        ["a"] * 10_001,
    ],
)
def test_it_refuses_an_input_that_says_nothing_it_understands(value: Any) -> None:
    assert refused(input=value).param == "input"


def test_it_takes_a_request_with_nothing_but_its_input() -> None:
    request = parsed()
    assert (request.model, request.store, request.stream, request.background, request.thinking) == (
        "gpt", True, False, False, False
    )  # fmt: skip
    assert request.messages() == (ChatMessage("user", "When is high tide?"),)
    assert request.ignored == ()


@pytest.mark.parametrize("name", ["model", "stream", "store", "tools", "tool_choice", "temperature", "text",
                                  "reasoning", "metadata", "conversation", "instructions", "truncation",
                                  "max_output_tokens", "include", "user", "sources"])  # fmt: skip
def test_it_takes_null_for_what_is_missing(name: str) -> None:
    assert parsed(**{name: None}) == parsed()


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [({}, False), ({"effort": None}, False), ({"effort": ""}, False), ({"effort": "none"}, False),
     ({"effort": "low"}, True), ({"effort": "xhigh", "summary": "auto"}, True), ({"effort": "odd"}, True)],
)  # fmt: skip
def test_it_thinks_with_any_effort_but_none(reasoning: dict[str, Any], thinking: bool) -> None:
    assert parsed(reasoning=reasoning).thinking is thinking


def test_it_accepts_a_stream_in_the_background() -> None:
    request = parsed(stream=True, background=True)
    assert (request.stream, request.background) == (True, True)


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_preview", "web_search_preview_2025_03_11", "web_search_2025_08_26"]
)
def test_it_accepts_the_web_search_that_is_always_on(kind: str) -> None:
    tool = {"type": kind, "filters": {"allowed_domains": ["a.example"]}, "search_context_size": "low"}
    request = parsed(tools=[tool], tool_choice="auto")
    assert request.functions == ()
    assert request.echo["tools"] == [tool]
    assert request.ignored == ("tools[0].filters", "tools[0].search_context_size")


def test_it_hands_functions_on_as_they_are() -> None:
    request = parsed(tools=[{"type": "web_search"}, WEATHER], tool_choice="required")
    assert request.functions == (WEATHER,)
    assert request.tool_choice == "required"


def test_it_repeats_functions_with_all_that_clients_want_to_see() -> None:
    request = parsed(tools=[{"type": "function", "name": "now"}], parallel_tool_calls=False)
    assert request.echo["tools"] == [{"type": "function", "name": "now", "parameters": None, "strict": None}]
    assert request.parallel_tool_calls is False


def test_it_lists_what_it_does_not_honour() -> None:
    request = parsed(
        service_tier="flex",
        max_tool_calls=3,
        include=["reasoning.encrypted_content", "web_search_call.action.sources"],
        text={"verbosity": "low"},
        unheard_of=1,
    )
    assert request.ignored == ("max_tool_calls", "service_tier", "include", "text.verbosity")
    assert request.include_search_sources


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({"type": "text"}, ()),
        ({"type": "json_object"}, ("Answer with one JSON object",)),
        ({**SCHEMA, "strict": False}, ('follows this JSON Schema: {"type":"object"}',)),
    ],
)
def test_it_asks_for_json_in_one_line(form: dict[str, Any], line: tuple[str, ...]) -> None:
    instructions = parsed(text={"format": form}).format_instructions
    assert len(instructions) == len(line)
    assert all(words in instruction for words, instruction in zip(line, instructions, strict=True))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("Be brief.", "Be brief."),
        (["Be brief.", {"content": "Be kind."}, {"text": "Be true."}], "Be brief.\nBe kind.\nBe true."),
        ([{"role": "system", "content": [{"type": "input_text", "text": "Be"}, "brief."]}], "Be brief."),
    ],
)
def test_it_reads_instructions_in_every_form(given: Any, told: str) -> None:
    request = parsed(instructions=given)
    assert request.messages()[0] == ChatMessage("system", told)
    assert request.echo["instructions"] == told


def test_it_puts_what_came_before_between_the_instructions_and_the_new_input() -> None:
    request = parsed(instructions="Be brief.")
    before = (ChatMessage("user", "Hello"), ChatMessage("assistant", "Hello!"))
    assert [message.text for message in request.messages(before)] == [
        "Be brief.", "Hello", "Hello!", "When is high tide?"
    ]  # fmt: skip
    assert request.chat(before).messages == request.messages(before)


LONG = "x" * 2_000_000
ASKED = {"role": "user", "content": "When is high tide?"}


@pytest.mark.parametrize(
    "body",
    [
        {"instructions": LONG},
        {"instructions": [LONG[:900_000]] * 3},
        {"instructions": [{"content": [{"text": LONG[:900_000]}] * 3}]},
        {"tools": [{"type": "web_search", "filters": LONG}]},
        {"tools": [{"type": "web_search", "x": [{"y": LONG}]}]},
        {"tools": [{**WEATHER, "description": LONG}]},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "weather", "x": LONG}},
        {"text": {"format": {**SCHEMA, "description": LONG}}},
        {"text": {"format": {**SCHEMA, "schema": {"description": LONG}}}},
        {"text": {"format": {"type": "text", "x": LONG}}},
        {"input": LONG},
        {"input": [ASKED, {"role": "developer", "content": LONG}, ASKED]},
        {"input": [{"role": "assistant", "content": LONG[:900_000]}] * 3 + [ASKED]},
        {"input": [ASKED, {"role": "user", "content": [{"type": "input_text", "text": LONG[:900_000]}] * 3}]},
        {"input": [ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": LONG}]}, ASKED]},
        {"input": [ASKED, {"type": "function_call", "call_id": "c", "name": LONG, "arguments": "{}"}]},
        {"input": [ASKED, {"type": "function_call", "call_id": "c", "name": "f", "arguments": LONG}]},
        {"input": [ASKED, {"type": "function_call_output", "call_id": "c", "output": LONG}]},
        {"input": [ASKED, {"type": "function_call_output", "call_id": LONG, "output": "a"}]},
        {"input": [ASKED, {"type": "reasoning", "summary": LONG}]},
        {"input": [ASKED, {"role": "user", "content": [{"type": "input_file", "file_id": LONG}]}]},
        {"input": [ASKED, {"role": "user", "content": [{"type": "input_image", "image_url": f"https://a.b/{LONG}"}]}]},
        {"metadata": {"a": LONG}},
        {"reasoning": {"effort": "high", "summary": LONG}},
        {"prompt": {"id": LONG}},
        {"other": LONG},
    ],
    ids=lambda body: json.dumps(body)[:60],
)  # fmt: skip
def test_it_keeps_no_more_than_a_body_without_attachments_holds(body: dict[str, Any]) -> None:
    """All of it is in a row, and three times in the events of a stream."""
    kept: object = ""
    try:
        request = parsed(**body)
        kept = [request.input_items(ID), dict(request.echo)]
    except BadRequest as refusal:
        named = refusal.param
    else:
        named = next(iter(body))
    assert named is not None
    assert named.partition(".")[0] in body
    assert len(json.dumps(kept)) < LONGEST_KEPT


def test_it_takes_what_is_attached_for_no_words() -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{LONG}"}
    request = parsed(input=[{"role": "user", "content": [picture]}])
    assert len(request.attachments[0].data) > len(LONG)


NAMES = ["input", "model", "stream", "background", "store", "tools", "tool_choice", "text", "reasoning",
         "metadata", "conversation", "instructions", "include", "temperature", "previous_response_id", "user",
         "sources", "language", "truncation"]  # fmt: skip
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(["user", "message", "function", "input_text", "web_search", "auto"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["type", "role", "content", "text", "id", "format", "output", "call_id", "effort"])
        | st.text(max_size=3),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=5))
def test_it_answers_any_json_with_a_request_or_one_clear_error(body: dict[str, Any]) -> None:
    problem = request = None
    try:
        request = parse_responses({"input": "Hello", **body}, default_model="gpt")
    except BadRequest as error:
        problem = error
    assert request or (problem and problem.param)
    if request:
        stored = json.dumps([request.input_items(ID), dict(request.echo)], ensure_ascii=False)
        assert "\\u0000" not in stored.replace("\\\\", "")
        assert stored.encode()
