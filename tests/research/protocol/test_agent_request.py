"""Every rule of agent-api §2 and SPEC 3.3, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import fields_of
from research.protocol.agent import parse_run_request
from research.protocol.options import RunRequest

KEY = "ssb-2026-001"
PREVIOUS = "resp_" + "ab" * 16


def parse(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> RunRequest:
    return parse_run_request(fields_of({"input": "Why?", **body}), headers or {})


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"input": None}, "input", "input is required"),
        ({"input": ""}, "input", "input is required"),
        ({"input": " \n"}, "input", "input is required"),
        ({"input": 7}, "input", "input must be a string or a list of input items"),
        ({"input": {"role": "user"}}, "input", "input must be a string or a list of input items"),
        ({"input": "x" * 100_001}, "input", "input must be at most 100,000 characters"),
        ({"input": "a\0b"}, "input", "input must not contain NUL characters"),
        ({"input": "\udc00"}, "input", "input is not valid Unicode: it contains a lone surrogate"),
        (
            {"background": False},
            "background",
            "background must be true: research always runs in the background",
        ),
        ({"background": 1}, "background", "background must be true or false"),
        ({"store": False}, "store", "store must be true: a run that is not stored cannot be polled"),
        ({"preset": 30}, "preset", "preset must be a string"),
        ({"preset": " "}, "preset", "preset must not be empty"),
        ({"preset": "x" * 101}, "preset", "preset must be at most 100 characters"),
        ({"effort": ["high"]}, "effort", "effort must be a string"),
        ({"model": 5}, "model", "model must be a string"),
        ({"instructions": {}}, "instructions", "instructions must be a string"),
        ({"instructions": "x" * 50_001}, "instructions", "instructions must be at most 50,000 characters"),
        ({"system_prompt": 1}, "system_prompt", "system_prompt must be a string"),
        ({"search_mode": "news"}, "search_mode", "search_mode must be one of: web, academic, sec"),
        (
            {"search_recency_filter": "decade"},
            "search_recency_filter",
            "search_recency_filter must be one of: hour, day, week, month, year",
        ),
        ({"reasoning": "high"}, "reasoning", "reasoning must be an object"),
        (
            {"reasoning": {"effort": "huge"}},
            "reasoning.effort",
            "reasoning.effort must be one of: none, minimal, low, medium, high, xhigh, max",
        ),
        (
            {"reasoning": {"effort": "low"}, "reasoning_effort": "high"},
            "reasoning_effort",
            "reasoning_effort contradicts reasoning.effort",
        ),
        (
            {"language_preference": "klingon!"},
            "language_preference",
            "language_preference must be a language code like en or pt-BR",
        ),
        ({"metadata": ["a"]}, "metadata", "metadata must be an object"),
        ({"metadata": {"a": 1}}, "metadata.a", "metadata.a must be a string"),
        ({"metadata": {"a": None}}, "metadata.a", "metadata.a must be a string"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "metadata.a must be at most 512 characters"),
        ({"metadata": {"<b>": 1}}, "metadata", "metadata must be a string"),
        ({"metadata": {"": "x"}}, "metadata", "metadata must have keys of 1 to 64 characters"),
        ({"metadata": {"k" * 65: "x"}}, "metadata", "metadata must have keys of 1 to 64 characters"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "metadata must have at most 16 pairs"),
        (
            {"idempotency_key": ""},
            "idempotency_key",
            "idempotency_key must be 1 to 200 printable characters",
        ),
        (
            {"idempotency_key": "a\nb"},
            "idempotency_key",
            "idempotency_key must be 1 to 200 printable characters",
        ),
        (
            {"idempotency_key": "x" * 201},
            "idempotency_key",
            "idempotency_key must be at most 200 characters",
        ),
        ({"idempotency_key": 7}, "idempotency_key", "idempotency_key must be a string"),
        ({"previous_response_id": 7}, "previous_response_id", "previous_response_id must be a string"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "No response with this id exists."),
        ({"tools": {}}, "tools", "tools must be a list"),
    ],
)
def test_it_refuses_what_is_wrong_by_name(body: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(body)
    assert (caught.value.param, caught.value.message) == (param, message)


def test_it_says_that_a_missing_input_is_required() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_run_request(fields_of({}), {})
    assert caught.value.body() == {
        "error": {
            "code": None,
            "message": "input is required",
            "type": "invalid_request_error",
            "param": "input",
        }
    }


def test_it_takes_a_bare_question() -> None:
    assert parse({"input": "  Why is the sky blue?\n"}) == RunRequest("Why is the sky blue?")


@pytest.mark.parametrize(
    "name", ["stream", "background", "store", "preset", "model", "metadata", "tools", "reasoning"]
)
def test_it_takes_null_for_unsaid(name: str) -> None:
    assert parse({name: None}) == RunRequest("Why?")


@pytest.mark.parametrize("body", [{"background": True}, {"store": True}, {"stream": True}])
def test_it_takes_what_it_does_anyway(body: dict[str, Any]) -> None:
    assert parse(body) == RunRequest("Why?")


@pytest.mark.parametrize(
    ("body", "preset"),
    [
        ({"preset": "high"}, "high"),
        ({"preset": " 30m "}, "30m"),
        ({"effort": "low"}, "low"),
        ({"effort": "low", "preset": "high"}, "low"),
        ({"effort": None, "preset": "high"}, "high"),
        ({"effort": "high@2026-10-16.0"}, "high"),
        ({"preset": "deep-research"}, "deep-research"),
        ({"model": "deep-research"}, None),
        ({"model": "sonar-deep-research", "preset": "2m"}, "2m"),
    ],
)
def test_it_reads_the_preset_from_effort_first(body: dict[str, Any], preset: str | None) -> None:
    assert parse(body).preset == preset


@pytest.mark.parametrize("model", ["sonar-deep-research", "deep-research", "default"])
def test_it_knows_research_models(model: str) -> None:
    assert parse({"model": model}).ignored == ()


def test_it_tells_that_other_models_are_ignored() -> None:
    request = parse({"model": "zai/glm-5.1", "preset": "high"})
    assert request.ignored == ("model",)
    assert request.options.model is None


def test_it_reads_every_option_of_the_seeds() -> None:
    request = parse(
        {
            "instructions": "Be brief.",
            "search_mode": "academic",
            "search_domain_filter": ["Nature.com", "science.org"],
            "search_after_date_filter": "1/31/2026",
            "search_before_date_filter": "12/01/2026",
            "reasoning": {"effort": "high"},
            "language_preference": "pt-BR",
            "metadata": {"ticket": "42"},
            "idempotency_key": KEY,
            "previous_response_id": PREVIOUS,
        }
    )
    options = request.options
    assert (options.instructions, options.search_mode, options.language) == ("Be brief.", "academic", "pt-BR")
    assert options.domains == ("nature.com", "science.org")
    assert (options.after_date, options.before_date) == ("01/31/2026", "12/01/2026")
    assert options.reasoning_effort == "high"
    assert (request.metadata, request.idempotency_key) == ({"ticket": "42"}, KEY)
    assert request.previous_id == UUID("ab" * 16)
    assert request.ignored == ()


def test_it_reads_sonar_s_flat_reasoning_effort() -> None:
    assert parse({"reasoning_effort": "minimal"}).options.reasoning_effort == "minimal"
    assert parse({"search_recency_filter": "month"}).options.recency == "month"


@pytest.mark.parametrize(
    ("body", "instructions"),
    [
        ({"instructions": " Be brief. "}, "Be brief."),
        ({"instructions": "  "}, None),
        ({"instructions": "One.", "system_prompt": "Two."}, "One.\n\nTwo."),
    ],
)
def test_it_joins_instructions(body: dict[str, Any], instructions: str | None) -> None:
    assert parse(body).options.instructions == instructions


def test_it_takes_the_idempotency_key_from_the_header() -> None:
    assert parse({}, {"idempotency-key": KEY}).idempotency_key == KEY
    assert parse({"idempotency_key": KEY}, {"idempotency-key": KEY}).idempotency_key == KEY


def test_it_refuses_two_different_keys() -> None:
    with pytest.raises(BadRequest) as caught:
        parse({"idempotency_key": KEY}, {"idempotency-key": "other"})
    assert caught.value.message == "idempotency_key differs from the header Idempotency-Key"
    assert caught.value.param == "idempotency_key"


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\x01b"])
def test_it_checks_the_header_like_the_field(key: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse({}, {"idempotency-key": key})
    assert caught.value.param == "idempotency_key"


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("2", 2), ("", 0), ("-1", 0), ("x", 0), ("²", 0), ("9" * 9, 0)]
)
def test_it_reads_the_sdk_s_retry_count(text: str, count: int) -> None:
    assert parse({}, {"x-stainless-retry-count": text}).retry_count == count


def test_it_ignores_unknown_fields_and_lists_known_ones() -> None:
    body = {
        "temperature": 0.2,
        "user": "me",
        "top_p": None,
        "wibble": {"deep": [1]},
        "reasoning": {"summary": "auto"},
    }
    assert parse(body).ignored == ("temperature", "user", "reasoning.summary")
