from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.sse import SseDecoder
from proxy.protocol.delta import Done, FaultKind, ModelUsed, Progress, Source
from proxy.protocol.delta import Fault as WebFault
from proxy.protocol.inquiry import MOST_CHARACTERS, Inquiry
from proxy.protocol.trail import Trail
from proxy.protocol.web_events import WebAnswer
from research.protocol import wire_web
from research.protocol.outcome import Earlier, Fault, Fetched, Found, Options, Order, Query, Refused
from research.protocol.report import build_report
from tests.proxy.protocol.samples import load

ORDER = Order("Why tides?", Options(), {}, "0b6ad0c4-7c0a-4b8e-9f5f-1f1f1f1f1f1f")
ROW = "aaaaaaaa-7c0a-4b8e-9f5f-1f1f1f1f1f1f"


def inquiry(order: Order) -> Inquiry:
    built = wire_web.build_inquiry(order)
    assert not isinstance(built, Refused)
    return built[0]


def test_it_asks_a_plain_question_in_plain_text() -> None:
    asked = inquiry(ORDER)
    assert (asked.question, asked.whole) == ("Why tides?", "Why tides?")
    assert (str(asked.key), asked.sources, asked.language) == (ORDER.upstream_key, ("web",), "en-US")


def test_it_says_instructions_and_the_earlier_turn_in_a_document() -> None:
    order = replace(ORDER, options=Options(instructions="Be brief."), earlier=Earlier("Moon?", "It pulls."))
    asked = inquiry(order)
    assert json.loads(asked.question) == {"query": "Why tides?", "instructions": ["Be brief."]}
    assert json.loads(asked.whole)["history"] == [
        {"role": "user", "content": "Moon?"},
        {"role": "assistant", "content": "It pulls."},
    ]
    assert asked.follows is None


def test_it_names_the_earlier_research_of_a_session() -> None:
    asked = inquiry(replace(ORDER, earlier=Earlier("Moon?", "It pulls.", ROW)))
    assert str(asked.follows) == ROW


@pytest.mark.parametrize("name", ["resp_123", "", "../x"])
def test_it_takes_no_other_name_for_a_research(name: str) -> None:
    assert inquiry(replace(ORDER, earlier=Earlier("Moon?", "It pulls.", name or None))).follows is None


@given(st.integers(0, 3), st.sampled_from(["a", '"', "é", "\n", "\u2028"]))
def test_it_cuts_an_earlier_report_that_would_not_fit(size: int, letter: str) -> None:
    asked = inquiry(replace(ORDER, earlier=Earlier("Moon?", letter * (size * 60_000))))
    assert len(asked.whole) <= MOST_CHARACTERS
    assert json.loads(asked.whole)["query"] == "Why tides?"


@pytest.mark.parametrize("letter", ["a", '"', "\n", "\x01"])
def test_it_gives_an_earlier_report_all_the_room_there_is(letter: str) -> None:
    asked = inquiry(replace(ORDER, earlier=Earlier("Moon?", letter * 200_000)))
    assert MOST_CHARACTERS - 6 < len(asked.whole) <= MOST_CHARACTERS


def test_it_refuses_a_question_that_no_session_takes() -> None:
    refused = wire_web.build_inquiry(replace(ORDER, question="a" * (MOST_CHARACTERS + 1)))
    assert isinstance(refused, Refused)
    assert refused.fault is Fault.INVALID
    assert "96,001" in refused.message


@pytest.mark.parametrize(
    ("options", "ignored"),
    [
        (Options(), ()),
        (Options(search_mode="web", recency="day", language="de", instructions="x"), ()),
        (Options(search_mode="academic", recency="year"), ()),
        (Options(search_mode="sec", recency="hour"), ("search_mode", "search_recency_filter")),
        (Options(domains=("a.example",)), ("search_domain_filter",)),
        (Options(after_date="01/01/2026"), ("search_after_date_filter",)),
        (Options(before_date="01/01/2026"), ("search_before_date_filter",)),
        (Options(reasoning_effort="high", model="m"), ("reasoning_effort", "model")),
    ],
)
def test_it_names_what_a_session_cannot_express(options: Options, ignored: tuple[str, ...]) -> None:
    built = wire_web.build_inquiry(replace(ORDER, options=options))
    assert not isinstance(built, Refused)
    assert built[1] == ignored


@pytest.mark.parametrize("kind", list(FaultKind))
def test_it_knows_what_each_fault_means_for_a_run(kind: FaultKind) -> None:
    refused = wire_web.refused(wire_web.told(WebFault(kind, "So it is.")), WebFault(kind, "So it is."))
    assert refused.message.endswith("(So it is.)")
    is_open = kind in (FaultKind.CUT, FaultKind.TIMED_OUT)
    assert (refused.fault is Fault.LOST) == is_open


def test_it_takes_an_edge_that_gave_up_for_an_open_question() -> None:
    assert wire_web.refused("x", WebFault(FaultKind.UNAVAILABLE, is_open=True)).fault is Fault.LOST


def test_it_keeps_the_numbers_of_the_last_list_and_every_other_page_behind_it() -> None:
    trail = Trail(queries={"tides": None}, read={"https://c.example/": None})
    trail.found = {url: Source(url, "T") for url in ("https://a.example/", "https://c.example/")}
    answer = Done(
        "The moon[2].",
        (Source(""), Source("https://a.example/", " A  a ", "s", "2026")),
        model=ModelUsed("pplx_alpha", substituted=False),
        report="The moon[2].",
    )
    done = wire_web.read_finished(answer, trail)
    assert done.found == (
        Found("https://a.example/", "A a", "s", "2026", 2),
        Found("https://c.example/", "T"),
    )
    assert (done.queries, done.fetched) == ((Query("tides"),), (Fetched("https://c.example/", "T"),))
    assert (done.steps, done.usage.searches, done.model, done.complete) == (2, 1, "pplx_alpha", True)


def test_it_calls_a_cover_note_without_its_report_incomplete() -> None:
    done = wire_web.read_finished(Done("The report follows."), Trail())
    assert (done.complete, done.reason) == (False, "cover_note_only")


def test_it_shows_goals_percent_and_time_to_go() -> None:
    running = wire_web.read_running(Done(""), Trail(goals={"Know the moon": None}), Progress(45, 82))
    assert (running.goals, running.percent, running.eta) == (("Know the moon",), 45, 82)


def test_it_keeps_what_a_stopped_research_had_and_nothing_of_a_failed_one() -> None:
    stopped = wire_web.read_ended(Done("Half."), Trail(), WebFault(FaultKind.STOPPED))
    assert stopped.cancelled
    assert stopped.partial is not None
    assert stopped.partial.text == "Half."
    failed = wire_web.read_ended(Done("Half."), Trail(), WebFault(FaultKind.REFUSED, "No."))
    assert (failed.cancelled, failed.partial) == (False, None)


@pytest.mark.parametrize("name", ["research-assets", "research-diff"])
def test_it_makes_a_report_of_cover_note_and_body(name: str) -> None:
    sample = load(name)
    answer = WebAnswer(sample.requested, Trail())
    for record in SseDecoder().feed(sample.stream):
        answer.read(record)
    assert answer.trail is not None
    finished = wire_web.read_finished(answer.so_far(), answer.trail)
    report = build_report(finished)
    assert finished.complete
    assert "\n\n# " in report.text
    assert not report.text.startswith("#")
    assert [source.provenance for source in report.sources] == ["cited"] * len(report.sources)
