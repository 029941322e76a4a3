from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.urls import normalise
from research.protocol.outcome import Finished, Found
from research.protocol.report import Report, build_report, url_citations
from tests.research.protocol.texts import markdown

EIGHT = tuple(
    Found(f"https://example.com/{number}", f"Page {number}", number=number) for number in range(1, 9)
)


def built(text: str, *found: Found) -> Report:
    return build_report(Finished(text, found=found or EIGHT))


def attributed(text: str, *found: Found) -> list[tuple[str, tuple[int, ...], str | None]]:
    return [(mark.text, mark.sources, mark.problem) for mark in built(text, *found).marks]


@pytest.mark.parametrize(
    ("mark", "sources", "problem"),
    [
        ("[1]", (1,), None),
        ("[1,2]", (1, 2), None),
        ("[1-3]", (1, 2, 3), None),
        ("[14]", (), "out_of_range"),
        ("[0]", (), "out_of_range"),
        ("[7-10]", (7, 8), "out_of_range"),
        ("[1, 14]", (1,), "out_of_range"),
        ("[0, 1]", (), "out_of_range"),
        ("[web:1]", (), "ambiguous"),
        ("[^1]", (), "ambiguous"),
    ],
)
def test_it_maps_a_mark_by_the_upstreams_numbers(
    mark: str, sources: tuple[int, ...], problem: str | None
) -> None:
    assert attributed(f"Claim {mark}.") == [(mark, sources, problem)]


def test_it_maps_both_numbers_of_a_repeated_page_to_one_source() -> None:
    found = (EIGHT[0], EIGHT[1], Found("https://EXAMPLE.com:443/1", number=3), EIGHT[3])
    assert attributed("a [3] b [4]", *found) == [("[3]", (1,), None), ("[4]", (4,), None)]


def test_it_guesses_no_number_that_the_upstream_gave_to_two_pages() -> None:
    assert attributed(
        "a [1] b [2]", Found("https://e.com/a", number=1), Found("https://e.com/b", number=1)
    ) == [
        ("[1]", (), "ambiguous"),
        ("[2]", (), "ambiguous"),
    ]


def test_it_guesses_nothing_when_the_upstream_numbered_nothing() -> None:
    report = built("a [1]", Found("https://e.com/a"))
    assert [mark.problem for mark in report.marks] == ["ambiguous"]
    assert [source.number for source in report.sources] == [2]


def test_it_believes_the_texts_own_list_of_references_first() -> None:
    text = "a [1] b [2] c [3]\n\n[1] Eight: https://example.com/8\n[2] https://elsewhere.example/"
    report = built(text)
    assert [(mark.sources, mark.problem) for mark in report.marks] == [
        ((1,), None),
        ((), "not_retrieved"),
        ((3,), None),
    ]
    assert report.sources[0].url == "https://example.com/8"
    assert report.checks.unlisted == ("https://elsewhere.example/",)


def test_it_tells_cited_sources_from_those_that_were_only_retrieved() -> None:
    report = built("Claim [2], and [see](https://EXAMPLE.com/3).\n\n[4] Page 4, https://example.com/4")
    assert [source.number for source in report.sources if source.provenance == "cited"] == [2, 3]
    assert {source.provenance for source in report.sources if source.number not in (2, 3)} == {"retrieved"}
    assert report.checks.unused == (1, 4, 5, 6, 7, 8)


def test_it_names_marks_that_fit_nothing_and_links_that_were_not_retrieved() -> None:
    report = built(
        "a [14] b [14] c [web:0] https://example.com/1 https://other.example. https://other.example/"
    )
    assert report.checks.out_of_range == ("[14]",)
    assert report.checks.unattributed == ("[web:0]",)
    assert report.checks.unlisted == ("https://other.example",)
    assert report.notices == ("Citation marks that point at no known source: [14], [web:0].",)


def test_it_recovers_links_from_the_text_when_the_upstream_listed_none() -> None:
    report = build_report(
        Finished("See https://e.com/a. And [b](https://e.com/b), https://E.com/a; `https://e.com/code`")
    )
    assert [(source.number, source.url, source.provenance) for source in report.sources] == [
        (1, "https://e.com/a", "recovered"),
        (2, "https://e.com/b", "recovered"),
    ]
    assert "recovered from the report text" in report.notices[0]
    assert not report.checks.unused
    assert not report.checks.unlisted
    assert url_citations(report) == []


def test_it_says_plainly_that_nothing_is_attributed() -> None:
    report = build_report(Finished("No link at all."))
    assert report.sources == ()
    assert report.notices == ("The upstream returned no sources: nothing in this report is attributed.",)


def test_it_gives_a_recovered_link_no_number_that_a_mark_could_mean() -> None:
    report = build_report(Finished("Claim [1], claim [2]. https://e.com/a"))
    assert [mark.problem for mark in report.marks] == ["no_sources", "no_sources"]
    assert [source.number for source in report.sources] == [3]


def test_it_numbers_recovered_links_as_the_texts_own_list_does() -> None:
    report = build_report(Finished("Claim [2].\n\n[1] https://e.com/a\n[2] https://e.com/b\n"))
    assert [(source.number, source.url) for source in report.sources] == [
        (1, "https://e.com/a"),
        (2, "https://e.com/b"),
    ]
    assert report.marks[0].sources == (2,)


def test_it_sets_the_thinking_apart_and_trims_the_text() -> None:
    report = built("<think>plan [1]</think>\n\n# Title\n\nClaim [1].\n")
    assert (report.text, report.thinking) == ("# Title\n\nClaim [1].", "plan [1]")
    assert [(mark.start, mark.end) for mark in report.marks] == [(15, 18)]


def test_it_says_that_a_report_is_cut_short() -> None:
    report = build_report(Finished("Half", complete=False, reason="time_budget", found=EIGHT))
    assert report.notices == (
        "This report is incomplete: the upstream stopped before its end (time_budget).",
    )


def test_it_annotates_each_mark_and_each_link_with_its_source() -> None:
    report = built("é [1, 2] and [x](https://example.com/3) [9]")
    assert url_citations(report) == [
        {
            "type": "url_citation",
            "url": f"https://example.com/{number}",
            "title": f"Page {number}",
            "start_index": start,
            "end_index": end,
        }
        for number, start, end in ((1, 2, 8), (2, 2, 8), (3, 13, 39))
    ]


def test_it_annotates_nothing_that_cannot_be_linked() -> None:
    report = built("a [1]", Found("attachment.pdf", "My file", number=1))
    assert report.marks[0].sources == (1,)
    assert url_citations(report) == []


found_pages = st.lists(
    st.builds(
        Found,
        url=st.sampled_from(
            ["https://example.com/a", "https://example.com/b", "http://example.com/", "x", ""]
        ),
        title=st.sampled_from(["", "T"]),
        number=st.none() | st.integers(-1, 15),
    ),
    max_size=8,
).map(tuple)


@given(markdown, found_pages)
def test_it_builds_a_storable_report_from_anything(text: str, found: tuple[Found, ...]) -> None:
    report = build_report(Finished(text, found=found))
    numbers = {source.number for source in report.sources}
    assert all(0 <= mark.start < mark.end <= len(report.text) for mark in report.marks)
    assert all(report.text[mark.start : mark.end] == mark.text for mark in report.marks)
    assert all(set(mark.sources) <= numbers for mark in report.marks)
    assert all(mark.sources or mark.problem for mark in report.marks)
    assert {normalise(page.url) for page in found} - {None} <= {
        normalise(source.url) for source in report.sources
    } or not found
    json.dumps([asdict(report), url_citations(report)])


@given(markdown, found_pages)
def test_it_calls_cited_exactly_what_the_text_points_at(text: str, found: tuple[Found, ...]) -> None:
    report = build_report(Finished(text, found=found))
    pointed = {number for mark in report.marks for number in mark.sources} | {
        link.source for link in report.links
    }
    for source in report.sources:
        assert (source.provenance == "cited") == (
            source.number in pointed and source.provenance != "recovered"
        )
