from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol import wire_responses
from research.protocol.outcome import (
    Earlier,
    Ended,
    Fault,
    Fetched,
    Finished,
    Options,
    Order,
    Query,
    Refused,
    Running,
    Submitted,
)
from research.protocol.report import build_report
from tests.environment import ROOT
from tests.examples import examples

SAMPLES = ROOT / "tests/samples/responses"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
ORDER = Order("Why tides?", Options(), {}, "0b6ad0c4-7c0a-4b8e-9f5f-1f1f1f1f1f1f")


def sample(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return loaded


def parsed(body: object, status: int = 200) -> Any:
    return wire_responses.parse_snapshot(status, {}, json.dumps(body).encode(), NOW)


def test_it_asks_in_the_background_for_a_model_that_searches() -> None:
    body, ignored = wire_responses.build_request(ORDER, "o3-deep-research")
    assert body == {
        "model": "o3-deep-research",
        "input": "Why tides?",
        "background": True,
        "store": True,
        "tools": [{"type": "web_search_preview"}],
        "include": ["web_search_call.action.sources"],
    }
    assert ignored == ()


def test_it_lets_a_preset_choose_and_a_caller_overrule_it() -> None:
    preset = {"model": "deep", "preset": "30m", "tools": [], "reasoning": {"summary": "auto"}, "secret": 1}
    options = Options(instructions="Be brief.", model="o9", reasoning_effort="high")
    body, _ = wire_responses.build_request(replace(ORDER, parameters=preset, options=options), "usual")
    assert (body["model"], body["preset"], body["tools"]) == ("o9", "30m", [])
    assert body["reasoning"] == {"summary": "auto", "effort": "high"}
    assert body["instructions"] == "Be brief."
    assert "secret" not in body


def test_it_names_what_it_cannot_express() -> None:
    options = Options(None, "academic", "week", ("a.example",), "01/01/2026", "02/01/2026", language="de")
    _, ignored = wire_responses.build_request(replace(ORDER, options=options), "m")
    assert ignored == (
        "search_mode",
        "search_recency_filter",
        "search_domain_filter",
        "search_after_date_filter",
        "search_before_date_filter",
        "language_preference",
    )


def test_it_follows_up_by_id_or_by_what_was_said() -> None:
    by_id, _ = wire_responses.build_request(replace(ORDER, earlier=Earlier("q", "r", "resp_1")), "m")
    assert (by_id["previous_response_id"], by_id["input"]) == ("resp_1", "Why tides?")
    said, _ = wire_responses.build_request(replace(ORDER, earlier=Earlier("q", "r")), "m")
    assert [item["content"] for item in said["input"]] == ["q", "r", "Why tides?"]


def test_it_reads_what_openai_delivers() -> None:
    done = parsed(sample("openai_completed"))
    assert isinstance(done, Finished)
    assert done.queries == (Query("tides cause"), Query("moon gravity"))
    assert done.fetched == (Fetched("https://a.example/tides"), Fetched("https://b.example/moon"))
    assert (done.steps, done.model) == (4, "o3-deep-research-2026-06-26")
    assert (done.usage.input_tokens, done.usage.reasoning_tokens, done.usage.cost) == (1000, 400, None)
    report = build_report(done)
    assert {source.url: source.provenance for source in report.sources} == {
        "https://a.example/tides": "cited",
        "https://b.example/moon": "retrieved",
    }


def test_it_reads_what_another_sonde_delivers() -> None:
    done = parsed(sample("sonde_completed"))
    assert isinstance(done, Finished)
    assert (done.steps, done.model, done.simulated) == (7, "openai/gpt-6-luna", True)
    assert done.usage.cost == Decimal("0.0168")
    assert done.queries == (Query("tides cause", ("https://a.example/tides",)),)
    assert done.fetched == (Fetched("https://b.example/moon", "Moon"),)
    report = build_report(done)
    assert [(source.number, source.provenance) for source in report.sources] == [(1, "cited"), (4, "cited")]
    assert [mark.problem for mark in report.marks] == [None, None]


def test_it_shows_what_is_there_while_it_runs() -> None:
    going = sample("openai_completed") | {"status": "in_progress"}
    del going["output"][-1]
    running = parsed(going)
    assert isinstance(running, Running)
    assert running.goals == ("**Looking for tide tables**",)
    assert (len(running.queries), len(running.fetched), running.text) == (2, 2, "")


@pytest.mark.parametrize("status", ["queued", "in_progress", "thinking", ""])
def test_it_goes_on_with_every_status_that_is_no_end(status: str) -> None:
    assert isinstance(parsed({"id": "resp_1", "status": status, "output": []}), Running)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "It broke."}}, "It broke."),
        ({"status": "failed", "error": None}, "no reason"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "incomplete", "output": []}, "before it had written"),
        ({"status": "completed", "output": []}, "without delivering"),
    ],
)
def test_it_tells_ends_without_a_report(change: dict[str, Any], expected: str) -> None:
    ended = parsed(sample("openai_completed") | {"output": []} | change)
    assert isinstance(ended, Ended)
    assert expected in ended.message
    assert ended.partial is None


def test_it_keeps_half_a_report_and_says_why() -> None:
    half = parsed(
        sample("openai_completed")
        | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    )
    assert isinstance(half, Finished)
    assert (half.complete, half.reason) == (False, "max_output_tokens")


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (400, Fault.INVALID),
        (401, Fault.BAD_KEY),
        (402, Fault.QUOTA),
        (403, Fault.FORBIDDEN),
        (404, Fault.RETIRED),
        (409, Fault.INVALID),
        (422, Fault.INVALID),
        (429, Fault.RATE_LIMITED),
        (500, Fault.OUTAGE),
        (503, Fault.OUTAGE),
        (504, Fault.LOST),
    ],
)
def test_it_tells_refusals_apart(status: int, fault: Fault) -> None:
    body = b'{"error": {"message": "No.", "type": "invalid_request_error", "param": null, "code": null}}'
    refused = wire_responses.parse_created(status, {"retry-after": "3"}, body, NOW)
    assert isinstance(refused, Refused)
    assert (refused.fault, refused.message, refused.retry_after) == (fault, "No.", 3.0)


def test_it_knows_a_quota_that_calls_itself_a_rate_limit() -> None:
    body = b'{"error": {"message": "No money.", "code": "insufficient_quota"}}'
    refused = wire_responses.parse_created(429, {}, body, NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.QUOTA


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id": 7}', b'{"id": "a/../b"}', b'{"id": ""}'])
def test_it_takes_nothing_for_a_job_that_names_none(body: bytes) -> None:
    created = wire_responses.parse_created(200, {}, body, NOW)
    assert isinstance(created, Refused)
    assert created.fault is Fault.BROKEN


def test_it_takes_a_job_and_says_what_is_not_honoured() -> None:
    created = wire_responses.parse_created(200, {}, b'{"id": "resp_1", "status": "queued"}', NOW, ("x",))
    assert created == Submitted("resp_1", ("x",))


@pytest.mark.parametrize(
    ("status", "stop"), [(200, "stopping"), (202, "stopping"), (400, Fault.TERMINAL), (404, Fault.GONE)]
)
def test_it_reads_the_answer_to_a_stop(status: int, stop: object) -> None:
    said = wire_responses.parse_cancel(status, {}, b"{}", NOW)
    assert (said.fault if isinstance(said, Refused) else said) == stop


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@examples(150)
@given(st.sampled_from(["openai_completed", "sonde_completed"]), st.data())
def test_it_reads_whatever_stands_in_place_of_any_member(name: str, data: st.DataObject) -> None:
    body = sample(name)
    place: Any = body
    for _ in range(data.draw(st.integers(1, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    assert parsed(body) is not None


@pytest.mark.parametrize("name", ["openai_completed", "sonde_completed"])
def test_it_reads_a_body_that_is_cut_anywhere(name: str) -> None:
    whole = (SAMPLES / f"{name}.json").read_bytes().strip()
    for length in range(0, len(whole), 7):
        cut = wire_responses.parse_snapshot(200, {}, whole[:length], NOW)
        assert isinstance(cut, Refused)
        assert cut.fault is Fault.BROKEN
