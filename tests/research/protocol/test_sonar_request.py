from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.errors import BadRequest
from portal.wire.fields import fields_of
from research.protocol.options import RunRequest
from research.protocol.outcome import Options
from research.protocol.sonar import LEAST_BUDGET, UNHONOURED, parse_job
from tests.research.protocol.test_agent_any_json import values

ASKED: dict[str, Any] = {
    "model": "sonar-deep-research",
    "messages": [{"role": "user", "content": "Why?"}],
}


def parse(request: Any, headers: dict[str, str] | None = None, **beside: Any) -> RunRequest:
    return parse_job(fields_of({"request": request, **beside}), headers or {})


def refused(request: Any, **beside: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse(request, **beside)
    return caught.value


def test_it_reads_the_least_that_a_job_needs() -> None:
    assert parse(ASKED) == RunRequest("Why?", preset="medium", least_budget=LEAST_BUDGET)


@pytest.mark.parametrize(
    ("effort", "preset"),
    [("minimal", "2m"), ("low", "low"), ("medium", "medium"), ("high", "high"), (None, "medium")],
)
def test_it_takes_an_effort_for_the_preset_of_its_price(effort: str | None, preset: str) -> None:
    assert parse(ASKED | {"reasoning_effort": effort}).preset == preset


def test_it_reads_what_the_original_s_tool_sends() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    read = parse(
        ASKED
        | {
            "messages": messages,
            "search_mode": "academic",
            "search_domain_filter": ["-Pinterest.com"],
            "search_after_date_filter": "1/31/2026",
            "language_preference": "de",
        }
    )
    assert read.options == Options(
        instructions="Be brief.",
        search_mode="academic",
        domains=("-pinterest.com",),
        after_date="01/31/2026",
        language="de",
    )


def test_it_asks_what_the_user_said_in_parts() -> None:
    parts = [{"type": "text", "text": "Why"}, {"type": "text", "text": "blue?"}]
    assert parse(ASKED | {"messages": [{"role": "user", "content": parts}]}).question == "Why\n\nblue?"


def test_it_tells_which_messages_ask_nothing() -> None:
    messages = [
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "4", "tool_call_id": "c"},
        {"role": "user", "content": "Why?"},
    ]
    assert parse(ASKED | {"messages": messages}).ignored == ("request.messages[0]", "request.messages[1]")


@pytest.mark.parametrize("name", UNHONOURED)
def test_it_lists_what_research_has_no_use_for(name: str) -> None:
    assert parse(ASKED | {name: 1}).ignored == (f"request.{name}",)
    assert parse(ASKED | {name: False}).ignored == ()


def test_it_lists_function_tools() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert parse(ASKED | {"tools": tools}).ignored == ("request.tools[0]",)


def test_it_ignores_fields_that_nobody_knows() -> None:
    assert parse(ASKED | {"flavour": "sweet"}, colour="blue").ignored == ()


@pytest.mark.parametrize("carrier", ["body", "header"])
def test_it_reads_the_idempotency_key(carrier: str) -> None:
    read = (
        parse(ASKED, idempotency_key="k")
        if carrier == "body"
        else parse(ASKED, headers={"idempotency-key": "k"})
    )
    assert read.idempotency_key == "k"


def test_it_knows_a_request_that_an_sdk_sends_again() -> None:
    assert parse(ASKED, headers={"x-stainless-retry-count": "1"}).retry_count == 1


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "request.model"),
        ({"model": "sonar-pro"}, "request.model"),
        ({"model": 7}, "request.model"),
        ({"messages": None}, "request.messages"),
        ({"messages": "Why?"}, "request.messages"),
        ({"messages": []}, "request.messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "request.messages"),
        ({"messages": [{"role": "robot", "content": "Why?"}]}, "request.messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "request.messages[0].content"),
        ({"reasoning_effort": "xhigh"}, "request.reasoning_effort"),
        ({"search_mode": "news"}, "request.search_mode"),
        ({"search_recency_filter": "decade"}, "request.search_recency_filter"),
        ({"search_after_date_filter": "2026-01-31"}, "request.search_after_date_filter"),
        ({"search_domain_filter": ["a.org", "-b.org"]}, "request.search_domain_filter"),
        ({"search_domain_filter": ["https://a.org"]}, "request.search_domain_filter[0]"),
        ({"language_preference": "?"}, "request.language_preference"),
    ],
)
def test_it_names_the_field_that_is_wrong(change: dict[str, Any], param: str) -> None:
    assert refused(ASKED | change).param == param


def test_it_names_the_path_for_models_that_answer_at_once() -> None:
    error = refused(ASKED | {"model": "sonar"})
    assert error.code == "model_not_found"
    assert "POST /chat/completions" in error.message


@pytest.mark.parametrize("request_", [None, "Why?", []])
def test_it_needs_a_request(request_: Any) -> None:
    assert refused(request_).param == "request"


@pytest.mark.parametrize("key", [7, "", "k" * 201, "a\nb"])
def test_it_refuses_a_bad_idempotency_key(key: Any) -> None:
    assert refused(ASKED, idempotency_key=key).param == "idempotency_key"


NAMES = ("model", "messages", "reasoning_effort", "search_mode", "search_domain_filter", "tools", *UNHONOURED)


@given(st.dictionaries(st.sampled_from(NAMES), values), values, st.booleans())
def test_it_reads_or_refuses_whatever_json_arrives(
    request: dict[str, Any], key: object, with_the_least: bool
) -> None:
    asked = {**request, **ASKED} if with_the_least else request
    assert read_or_named(asked, key)


def read_or_named(request: dict[str, Any], key: object) -> str | None:
    """What is asked, or the field that is wrong."""
    try:
        return parse(request, idempotency_key=key).question
    except BadRequest as problem:
        return problem.param
