from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

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
from research.protocol.wire_sonar import build_request, parse_created, parse_snapshot
from tests.research.protocol.answers import hostile_bodies
from tests.research.protocol.samples import NOW, sample

ID = "9f1c2d3e-aaaa-4bbb-8ccc-0123456789ab"
ORDER = Order("Why is the sky blue?", Options(), {"reasoning_effort": "medium"}, "key-1")


def asked(earlier: Earlier | None = None, **options: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    body, ignored = build_request(replace(ORDER, options=Options(**options), earlier=earlier))
    assert body["idempotency_key"] == "key-1"
    return body["request"], ignored


def snapshot(name: str) -> Any:
    return parse_snapshot(200, {}, sample(f"sonar/{name}.json"), NOW)


def completed(content: Any, **response: Any) -> Any:
    response = {"choices": [{"message": {"role": "assistant", "content": content}}], **response}
    return parse_snapshot(200, {}, json.dumps({"status": "COMPLETED", "response": response}).encode(), NOW)


def test_it_sends_the_question_alone_when_nothing_else_is_asked() -> None:
    assert asked() == (
        {
            "model": "sonar-deep-research",
            "messages": [{"role": "user", "content": "Why is the sky blue?"}],
            "reasoning_effort": "medium",
        },
        (),
    )


def test_it_sends_every_option_that_the_api_knows() -> None:
    request, ignored = asked(
        instructions="Be brief.",
        search_mode="sec",
        domains=("example.org", "-example.com"),
        after_date="01/31/2026",
        before_date="03/01/2026",
        reasoning_effort="high",
        language="de",
        model="sonar-deep-research",
    )
    assert ignored == ()
    assert request == {
        "model": "sonar-deep-research",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Why is the sky blue?"},
        ],
        "reasoning_effort": "high",
        "search_mode": "sec",
        "search_domain_filter": ["example.org", "-example.com"],
        "search_after_date_filter": "01/31/2026",
        "search_before_date_filter": "03/01/2026",
        "language_preference": "de",
    }


def test_it_says_which_options_it_cannot_express() -> None:
    request, ignored = asked(reasoning_effort="xhigh", model="sonar-pro")
    assert (request["reasoning_effort"], request["model"]) == ("medium", "sonar-deep-research")
    assert ignored == ("reasoning_effort", "model")
    request, ignored = asked(recency="week", before_date="03/01/2026")
    assert ignored == ("search_recency_filter",)
    assert "search_recency_filter" not in request
    assert asked(recency="week")[0]["search_recency_filter"] == "week"


def test_it_tells_the_earlier_turn_in_its_own_words() -> None:
    request, _ = asked(Earlier("First?", "A report.", ID))
    assert [(turn["role"], turn["content"]) for turn in request["messages"]] == [
        ("user", "First?"),
        ("assistant", "A report."),
        ("user", "Why is the sky blue?"),
    ]


def test_it_takes_the_name_of_the_job() -> None:
    assert parse_created(200, {}, sample("sonar/created.json"), NOW, ("model",)) == Submitted(ID, ("model",))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        sample("sonar/list.json"),
        b'{"id":"x","requests":[]}',
        b'{"id":""}',
        b'{"id":".."}',
        b'{"id":"a b"}',
        b'{"id":5}',
    ],
)
def test_it_takes_no_job_from_a_broken_answer(body: bytes) -> None:
    refused = parse_created(200, {}, body, NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.BROKEN


@pytest.mark.parametrize(
    "name", ["retired", "migration_required_type", "migration_required_code", "migration_required_text"]
)
def test_it_knows_a_retired_endpoint_on_every_call(name: str) -> None:
    body = sample(f"refusals/{name}.json")
    for answer in (parse_created(403, {}, body, NOW), parse_snapshot(403, {}, body, NOW)):
        assert isinstance(answer, Refused)
        assert answer.fault is Fault.RETIRED


@pytest.mark.parametrize("name", ["created", "in_progress"])
def test_it_reads_a_job_that_goes_on(name: str) -> None:
    assert snapshot(name) == Running()


def test_it_lets_a_job_of_unknown_status_go_on() -> None:
    assert parse_snapshot(200, {}, b'{"id":"x","status":"PENDING"}', NOW) == Running()


def test_it_reads_a_completed_job() -> None:
    assert snapshot("completed") == Finished(
        text="<think>Search first.</think>\n# Findings\n\nOne [1], two [2].",
        found=(
            Found("https://example.com/one", "One", "", "2026-05-01", 1),
            Found("https://example.org/two", "Two", "about two", None, 2),
            Found("https://example.com/one"),
            Found("https://example.org/two"),
            Found("https://example.net/extra"),
            Found("https://example.com/one", "One"),
        ),
        queries=(Query("battery line", ("https://example.com/one",)), Query("battery plan")),
        fetched=(Fetched("https://example.com/one", "One", "text"),),
        steps=2,
        usage=Usage(11, 222, 6000, 0, 8, Decimal("0.073")),
        model="sonar-deep-research",
    )


def test_it_makes_a_report_whose_marks_count_the_search_results() -> None:
    report = build_report(snapshot("completed"))
    assert report.thinking == "Search first."
    assert [(source.number, source.title, source.provenance) for source in report.sources] == [
        (1, "One", "cited"),
        (2, "Two", "cited"),
        (3, "example.net", "retrieved"),
    ]
    assert [mark.sources for mark in report.marks] == [(1,), (2,)]


def test_it_recovers_what_the_empty_arrays_of_the_known_defect_left_out() -> None:
    done = snapshot("completed_without_sources")
    assert (done.found, done.usage.searches, done.usage.cost) == ((), 4, Decimal("0.08"))
    report = build_report(done)
    assert [(source.url, source.provenance) for source in report.sources] == [
        ("https://example.com/a", "recovered")
    ]


def test_it_counts_citations_only_where_they_are_all_there_is() -> None:
    done = completed("x [2]", citations=["https://e.com/a", "https://e.com/b"], search_results=[])
    assert [page.number for page in done.found] == [1, 2]
    done = completed(
        "x [2]", citations=["https://e.com/b"], search_results=[{"title": "A", "url": "https://e.com/a"}]
    )
    assert [(page.url, page.number) for page in done.found] == [
        ("https://e.com/a", 1),
        ("https://e.com/b", None),
    ]


def test_it_keeps_the_place_of_a_source_after_one_that_cannot_be_read() -> None:
    done = completed("x [2]", search_results=[None, {"title": "B", "url": "https://e.com/b"}])
    report = build_report(done)
    assert [(source.number, source.url) for source in report.sources] == [(2, "https://e.com/b")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_it_reads_both_forms_of_content(content: Any, text: str) -> None:
    assert completed(content).text == text


@pytest.mark.parametrize("content", [None, "", " \n", [], {}, 5, "<think>only this</think>"])
def test_it_ends_a_job_without_a_report(content: Any) -> None:
    assert completed(content) == Ended("The upstream finished without delivering a report.")


@pytest.mark.parametrize("response", [None, [], {}, {"choices": None}, {"choices": [{}]}, {"choices": ["x"]}])
def test_it_ends_a_completed_job_without_an_answer(response: Any) -> None:
    body = json.dumps({"status": "COMPLETED", "response": response}).encode()
    assert isinstance(parse_snapshot(200, {}, body, NOW), Ended)


def test_it_keeps_a_report_whose_think_block_never_ends() -> None:
    assert completed("<think>never ends").text == "<think>never ends"


def test_it_tells_a_report_that_was_cut_at_its_length() -> None:
    body = {
        "status": "COMPLETED",
        "response": {"choices": [{"finish_reason": "length", "message": {"content": "Half"}}]},
    }
    done = parse_snapshot(200, {}, json.dumps(body).encode(), NOW)
    assert isinstance(done, Finished)
    assert (done.complete, done.reason) == (False, "max_output_tokens")


def test_it_ends_a_failed_job_with_the_upstreams_words() -> None:
    assert snapshot("failed") == Ended("the research could not be finished")
    assert parse_snapshot(200, {}, b'{"status":"FAILED"}', NOW) == Ended("The upstream gave no reason.")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"status":null}', b'{"status":"COMPLETED","requests":[]}']
)
def test_it_calls_an_answer_that_is_no_job_broken(body: bytes) -> None:
    refused = parse_snapshot(200, {}, body, NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.BROKEN


def test_it_finds_that_a_job_is_gone() -> None:
    refused = parse_snapshot(404, {}, b"", NOW)
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.GONE


@given(hostile_bodies(sample("sonar/completed.json")))
def test_it_never_raises_whatever_the_body(body: bytes) -> None:
    snapshot = parse_snapshot(200, {}, body, NOW)
    parse_created(200, {}, body, NOW)
    if isinstance(snapshot, Finished):
        build_report(snapshot).text.encode()
