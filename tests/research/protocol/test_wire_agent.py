from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.outcome import (
    Earlier,
    Ended,
    Fault,
    Fetched,
    Finished,
    Found,
    Options,
    Order,
    Query,
    Refused,
    Running,
    Submitted,
    Usage,
)
from research.protocol.report import build_report
from research.protocol.wire_agent import build_request, parse_cancel, parse_created, parse_snapshot
from tests.research.protocol.answers import hostile_bodies
from tests.research.protocol.samples import NOW, sample

ID = "resp_d60f3e03-5f0b-4c1c-9a4e-2f1b7a1f9c11"
ORDER = Order("Why is the sky blue?", Options(), {"effort": "high"}, "key-1")


def asked(*, parameters: dict[str, Any] | None = None, earlier: Earlier | None = None, **options: Any) -> Any:
    order = replace(ORDER, options=Options(**options), earlier=earlier)
    return build_request(replace(order, parameters=parameters) if parameters is not None else order)


def snapshot(name: str) -> Any:
    return parse_snapshot(200, {}, sample(f"agent/{name}.json"), NOW)


def told(**job: Any) -> Any:
    return parse_snapshot(200, {}, json.dumps(job).encode(), NOW)


def message(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content, **more}


# The request


def test_it_asks_in_the_background_with_the_presets_effort() -> None:
    assert asked() == ({"input": "Why is the sky blue?", "background": True, "effort": "high"}, ())


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"preset": "medium"}, {"preset": "medium"}),
        ({"preset": "low", "effort": "high@2026-10-16.0"}, {"effort": "high@2026-10-16.0"}),
        (
            {"effort": "high", "max_steps": 30, "max_output_tokens": 9000},
            {"effort": "high", "max_steps": 30, "max_output_tokens": 9000},
        ),
        ({"effort": "high", "temprature": 1, "idempotency_key": "x", "tools": []}, {"effort": "high"}),
        ({"effort": 7, "max_steps": True, "max_tool_calls": -1}, {"effort": "medium"}),
        ({}, {"effort": "medium"}),
    ],
)
def test_it_sends_only_parameters_that_the_strict_server_knows(
    parameters: dict[str, Any], expected: dict[str, Any]
) -> None:
    body, ignored = asked(parameters=parameters)
    assert body == {"input": "Why is the sky blue?", "background": True, **expected}
    assert ignored == ()


def test_it_adds_instructions_to_the_presets_own_prompt() -> None:
    body, _ = asked(instructions="Be brief.")
    assert "instructions" not in body
    assert body["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "Why is the sky blue?"},
    ]


def test_it_puts_filters_inside_the_search_tool_and_keeps_reading_pages() -> None:
    body, ignored = asked(
        domains=("example.org", "example.com"), after_date="01/31/2026", before_date="03/01/2026"
    )
    assert body["tools"] == [
        {
            "type": "web_search",
            "filters": {
                "search_domain_filter": ["example.org", "example.com"],
                "search_after_date_filter": "01/31/2026",
                "search_before_date_filter": "03/01/2026",
            },
        },
        {"type": "fetch_url"},
    ]
    assert ignored == ()
    assert asked(recency="week")[0]["tools"][0]["filters"] == {"search_recency_filter": "week"}


def test_it_says_which_options_it_cannot_express() -> None:
    for mode in ("academic", "sec"):
        body, ignored = asked(search_mode=mode)
        assert ignored == ("search_mode",)
        assert "search_mode" not in body
    assert asked(search_mode="web")[1] == ()
    assert asked(model="zai/glm-5.1", reasoning_effort="extreme")[1] == ("model", "reasoning_effort")
    body, ignored = asked(recency="week", after_date="01/31/2026")
    assert ignored == ("search_recency_filter",)
    assert body["tools"][0]["filters"] == {"search_after_date_filter": "01/31/2026"}


@pytest.mark.parametrize(
    ("parameters", "effort", "expected"),
    [
        ({}, "minimal", {"effort": "low"}),
        ({}, "high", {"effort": "high"}),
        ({"effort": "high"}, "high", {"effort": "high"}),
        ({"effort": "low"}, "minimal", {"effort": "low"}),
        ({"effort": "high"}, "low", {"effort": "high", "reasoning": {"effort": "low"}}),
        ({}, "none", {"effort": "medium", "reasoning": {"effort": "none"}}),
    ],
)
def test_it_maps_reasoning_effort_onto_presets_and_never_changes_the_runs_own(
    parameters: dict[str, Any], effort: str, expected: dict[str, Any]
) -> None:
    body, _ = asked(parameters=parameters, reasoning_effort=effort)
    assert {name: body[name] for name in ("effort", "preset", "reasoning") if name in body} == expected


def test_it_sends_the_language_preference() -> None:
    assert asked(language="pt-BR")[0]["language_preference"] == "pt-BR"


def test_it_continues_an_earlier_job_by_name_or_else_by_its_words() -> None:
    body, _ = asked(earlier=Earlier("First?", "A report.", ID))
    assert (body["previous_response_id"], body["input"]) == (ID, "Why is the sky blue?")
    body, _ = asked(earlier=Earlier("First?", "A report."), instructions="Be brief.")
    assert "previous_response_id" not in body
    assert [(item["role"], item["content"]) for item in body["input"]] == [
        ("system", "Be brief."),
        ("user", "First?"),
        ("assistant", "A report."),
        ("user", "Why is the sky blue?"),
    ]


# Its answer


def test_it_takes_the_name_of_the_job_and_hands_the_ignored_options_on() -> None:
    assert parse_created(200, {}, sample("agent/queued.json"), NOW, ("model",)) == Submitted(ID, ("model",))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"<html></html>",
        b'{"id":null}',
        b'{"id":"resp_../x"}',
        b'{"id":"x"}',
        b'{"id":"resp_1\\n"}',
    ],
)
def test_it_takes_no_job_from_a_broken_answer(body: bytes) -> None:
    refused = parse_created(200, {}, body, NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.BROKEN


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (403, "retired", Fault.RETIRED),
        (401, "invalid_key", Fault.BAD_KEY),
        (400, "unknown_field", Fault.INVALID),
    ],
)
def test_it_hands_on_why_a_submission_was_refused(status: int, body: str, fault: Fault) -> None:
    refused = parse_created(status, {}, sample(f"refusals/{body}.json"), NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is fault


# Snapshots


def test_it_reads_a_queued_job() -> None:
    assert snapshot("queued") == Running()


def test_it_reads_partial_output_of_a_running_job() -> None:
    assert snapshot("in_progress") == Running(
        queries=(
            Query("solid state battery factory 2026", ("https://example.com/one", "https://example.org/two")),
            Query("solid state battery pilot line"),
        ),
        fetched=(Fetched("https://example.com/one", "Pilot line opens", "Page text."),),
        found=(
            Found("https://example.com/one", "Pilot line opens", "The line opened in May.", None, 1),
            Found("https://example.org/two", "Plans for 2027", "", "2026-05-01", 2),
        ),
    )


def test_it_reads_a_completed_job() -> None:
    done = snapshot("completed")
    assert isinstance(done, Finished)
    assert done.text == "# Batteries\n\nA line opened in May [1]. More is planned [2][3]."
    assert (done.complete, done.reason, done.steps, done.model) == (True, None, 3, "openai/gpt-6-luna")
    assert done.usage == Usage(12000, 900, 300, 4000, 2, Decimal("0.0166000000000000001"))
    assert [page.number for page in done.found] == [1, 2, 3, 4]
    assert [query.text for query in done.queries][-1] == "sulfide electrolyte supplier"


def test_it_makes_a_report_whose_marks_keep_the_upstreams_numbers() -> None:
    done = snapshot("completed")
    assert isinstance(done, Finished)
    report = build_report(done)
    assert [(source.number, source.url, source.provenance) for source in report.sources] == [
        (1, "https://example.com/one", "cited"),
        (2, "https://example.org/two", "cited"),
        (4, "https://example.com/four", "retrieved"),
        (5, "https://example.net/three", "retrieved"),
    ]
    assert [mark.sources for mark in report.marks] == [(1,), (2,), (1,)]
    assert report.notices == ()


@pytest.mark.parametrize("status", ["queued", "in_progress", "requires_action", "cancelling", "brand_new"])
def test_it_lets_a_job_of_unknown_status_go_on(status: str) -> None:
    assert isinstance(told(status=status, output=[message("so far")]), Running)
    assert told(status=status, output=[message("so far")]).text == "so far"


def test_it_delivers_text_that_was_cut_short_as_incomplete() -> None:
    done = snapshot("incomplete_text")
    assert isinstance(done, Finished)
    assert (done.text, done.complete, done.reason) == ("Half of a rep", False, "max_output_tokens")


def test_it_ends_a_job_that_spent_all_its_tokens_on_thinking() -> None:
    assert snapshot("incomplete_empty") == Ended("The upstream stopped before it had written anything.")


def test_it_ends_a_completed_job_without_a_report() -> None:
    for content in ("", "  ", None, [], [{"type": "refusal", "refusal": "no"}], "<think>only this</think>"):
        ended = told(status="completed", output=[message(content)])
        assert ended == Ended("The upstream finished without delivering a report.")


def test_it_ends_a_failed_job_with_the_upstreams_words() -> None:
    assert snapshot("failed") == Ended("the model could not answer")
    assert told(status="failed", error="text") == Ended("The upstream gave no reason.")
    assert told(status="failed", error=None) == Ended("The upstream gave no reason.")


def test_it_keeps_what_a_cancelled_job_had_delivered() -> None:
    ended = snapshot("cancelled")
    assert isinstance(ended, Ended)
    assert (ended.message, ended.cancelled) == ("cancelled", True)
    assert ended.partial is not None
    assert (ended.partial.text, ended.partial.complete, ended.partial.reason) == (
        "So far [1]",
        False,
        "cancelled",
    )
    assert [page.url for page in ended.partial.found] == ["https://example.com/one"]
    assert told(status="cancelled", output=[], usage=None).partial is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}], "ab"),
        (
            [
                {"text": "a"},
                "b",
                {"type": "image"},
                None,
                {"type": "refusal", "text": "c"},
                {"type": "text", "text": 5},
            ],
            "ab",
        ),
        ([{"type": "output_text", "text": "nul \x00 and half \ud800"}], "nul \ufffd and half \ufffd"),
    ],
)
def test_it_reads_every_form_of_content(content: Any, text: str) -> None:
    done = told(status="completed", output=[message(content)])
    assert isinstance(done, Finished)
    assert done.text == text


def test_it_takes_nobody_elses_words_for_the_answer() -> None:
    assert (
        told(
            status="in_progress",
            output=[message("question", role="user"), {"type": "reasoning", "content": "x"}],
        ).text
        == ""
    )


@pytest.mark.parametrize("number", [0, -1, 10**9, "3", None, True, 1.5])
def test_it_numbers_no_source_by_nonsense(number: Any) -> None:
    running = told(
        status="queued",
        output=[{"type": "search_results", "results": [{"id": number, "url": "https://e.com"}]}],
    )
    assert running.found == (Found("https://e.com"),)


def test_it_counts_output_items_as_steps_when_the_usage_says_nothing() -> None:
    kinds = ("search_results", "fetch_url_results", "mcp_call", "reasoning", "skill_loaded", "unknown")
    output = [*({"type": kind} for kind in kinds), message("x")]
    assert told(status="completed", output=output).steps == 3


def test_it_reads_money_in_dollars_only() -> None:
    def cost(value: Any) -> Decimal | None:
        body = (
            b'{"status":"completed","output":[{"type":"message","content":"x"}],"usage":{"cost":%s}}' % value
        )
        done = parse_snapshot(200, {}, body, NOW)
        assert isinstance(done, Finished)
        return done.usage.cost

    assert cost(b'{"total_cost":0.1}') == Decimal("0.1")
    assert cost(b'{"total_cost":2,"currency":"USD"}') == 2
    for wrong in (
        b'{"total_cost":2,"currency":"EUR"}',
        b'{"total_cost":-1}',
        b'{"total_cost":1e999999999}',
        b'{"total_cost":NaN}',
        b'{"total_cost":"1"}',
        b'{"total_cost":true}',
        b"[]",
    ):
        assert cost(wrong) is None


@pytest.mark.parametrize(
    "body", [b"", b'{"status":', b"[]", b'"completed"', b"{}", b'{"status":null}', b'{"status":7}', b"\xff"]
)
def test_it_calls_an_answer_without_a_status_broken(body: bytes) -> None:
    refused = parse_snapshot(200, {}, body, NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.BROKEN


def test_it_finds_that_a_job_is_gone() -> None:
    refused = parse_snapshot(404, {}, sample("refusals/not_found.json"), NOW)
    assert refused == Refused(Fault.GONE, "resource not found")


# Cancel


def test_it_takes_any_acceptance_of_a_cancel() -> None:
    assert parse_cancel(200, {}, b'{"response_id":"resp_1","status":"cancelling"}', NOW) == "stopping"
    assert parse_cancel(200, {}, b"", NOW) == "stopping"


def test_it_finds_nothing_left_to_cancel() -> None:
    stop = parse_cancel(400, {}, sample("refusals/terminal.json"), NOW)
    assert stop == Refused(Fault.TERMINAL, "the run is already terminal and cannot be cancelled")


# Anything


@given(hostile_bodies(sample("agent/completed.json")))
def test_it_never_raises_whatever_the_body(body: bytes) -> None:
    snapshot = parse_snapshot(200, {}, body, NOW)
    parse_created(200, {}, body, NOW)
    parse_cancel(200, {}, body, NOW)
    if isinstance(snapshot, Finished):
        build_report(snapshot).text.encode()


@given(st.integers(0, len(sample("agent/completed.json").strip()) - 1))
def test_it_calls_every_truncated_answer_broken(length: int) -> None:
    refused = parse_snapshot(200, {}, sample("agent/completed.json")[:length], NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.BROKEN
