"""Answers whose readers count sources by marks in the text: Sonar's (perplexity-api §4.1)."""

from __future__ import annotations

import pytest

from proxy.protocol.cleaning import ALL_SOURCES, clean
from proxy.protocol.delta import Delta, Done, Fault, FaultKind, Source, SourceFound, Text
from proxy.protocol.finishing import Finisher
from tests.proxy.protocol.samples import SAMPLES, Sample, last_of, read, text_of
from tests.tables import of_each

A, B, C = (Source(f"https://{name}.example/", name) for name in "abc")
FOUND: list[Delta] = [SourceFound(number, 3, source) for number, source in enumerate((A, B, C), 1)]
samples = of_each({sample.name: [sample] for sample in SAMPLES})


def finish(streamed: str, ended: str) -> tuple[str, Done]:
    deltas = Finisher(keeps_marks=True).pass_on([*FOUND, Text(streamed), Done(ended, (A, B, C))])
    last = last_of(deltas)
    assert isinstance(last, Done)
    return text_of(deltas), last


def test_it_keeps_the_marks_where_they_are() -> None:
    text, last = finish("One[1]. Two[2].", "One[1]. Two[2].")
    assert (text, last.sources) == ("One[1]. Two[2].", (A, B, C))
    assert {citation.source for citation in last.citations} == {A, B}


def test_it_does_not_wait_for_the_sources() -> None:
    assert Finisher(keeps_marks=True).pass_on([Text("One[1]. Two")]) == [Text("One[1]. Two")]


def test_it_keeps_the_marks_of_what_only_the_end_tells() -> None:
    assert finish("One[1].", "One[1]. Two[2].")[0] == "One[1]. Two[2]."
    assert finish("", "One[1].")[0] == "One[1]."


@pytest.mark.parametrize(
    ("streamed", "ended", "sources"),
    [
        ("One[1]. Two[2].", "One[2]. Two[1].", (B, A, C)),
        ("One[1]. Two[2].", "One[3]. Two[1].", (C, A, B)),
        ("One[2]. Two[3].", "One[1]. Two[1].", (B, A, A, C)),
        ("One[1]. Two[1].", "One[2]. Two[3].", (B, A, C)),
        ("One[9]. Two[2].", "One[1]. Two[3].", (A, C, B)),
    ],
)
def test_it_puts_the_sources_where_the_marks_that_were_sent_count_them(
    streamed: str, ended: str, sources: tuple[Source, ...]
) -> None:
    text, last = finish(streamed, ended)
    assert text == streamed
    assert last.sources == sources


def test_it_still_finds_a_rewritten_answer() -> None:
    deltas = Finisher(keeps_marks=True).pass_on([Text("One[1]."), Done("Two[1].", (A,))])
    assert deltas[-1] == Fault(FaultKind.REWRITTEN)


@samples
def test_it_loses_neither_words_nor_sources(sample: Sample) -> None:
    plain, kept = (read([sample.stream], sample.requested, keeps_marks=keeps) for keeps in (False, True))
    assert type(last_of(kept)) is type(last_of(plain))
    assert clean(text_of(kept), ALL_SOURCES)[0] == clean(text_of(plain), ALL_SOURCES)[0]
    done, same = last_of(plain), last_of(kept)
    if isinstance(done, Done) and isinstance(same, Done):
        assert sorted(source.url for source in same.sources) == sorted(source.url for source in done.sources)


@samples
def test_it_means_by_each_mark_what_the_upstream_s_last_telling_means(sample: Sample) -> None:
    deltas = read([sample.stream], sample.requested, keeps_marks=True)
    done = last_of(deltas)
    if not isinstance(done, Done):
        return
    cited = {citation.source.url for citation in done.citations}
    _, marks = clean(text_of(deltas), len(done.sources))
    assert {done.sources[mark.number - 1].url for mark in marks} >= cited


def test_it_cites_the_same_words_where_blanks_stand_before_the_marks() -> None:
    text, last = finish("One [1]. Two [2]. Three [3]", "One [1]. Two [2]. Three [3]")
    spans = [text[citation.start : citation.end] for citation in last.citations]
    assert spans == ["One", "Two", "Three"]
