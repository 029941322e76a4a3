"""Which sources the marks of a report mean, and what is wrong with those that mean none.

Whose numbering counts: the text's own list of references first; else the upstream's, which gives
`results[].id` (Agent API) or the position in `search_results` (Sonar), both from 1, for plain
`[n]`. The numbering of `[web:0]` is documented nowhere (perplexity-api §5.7): it is never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from research.protocol.citations import Bracket, Citations
from research.protocol.sources import Catalogue

Problem = Literal["out_of_range", "ambiguous", "not_retrieved", "no_sources"]
"""`out_of_range`: no source has that number. `ambiguous`: several do, or nothing says which one is
meant. `not_retrieved`: the text itself names a page for it that the upstream did not list.
`no_sources`: the upstream listed none."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A citation mark in a report: code point offsets into its text, half-open.

    `sources` are the numbers of the sources it surely means; with a `problem`, those of its
    numbers that have none.
    """

    start: int
    end: int
    text: str
    numbers: tuple[int, ...]
    sources: tuple[int, ...]
    problem: Problem | None = None


def attribute(citations: Citations, catalogue: Catalogue, *, has_listed: bool) -> tuple[Mark, ...]:
    """`has_listed`: whether the upstream listed sources; if not, the catalogue is made of recovered links."""
    return tuple(_mark(bracket, citations, catalogue, has_listed) for bracket in citations.marks)


def _mark(bracket: Bracket, citations: Citations, catalogue: Catalogue, has_listed: bool) -> Mark:
    sources: list[int] = []
    problem: Problem | None = None
    for number in bracket.numbers:
        meant = _source_of(number, bracket, citations, catalogue, has_listed)
        if isinstance(meant, int):
            sources.append(meant)
        else:
            problem = problem or meant
    if 0 in bracket.numbers and problem == "out_of_range":
        sources = []  # an interval or another numbering: its other numbers are not ours either
    meant_sources = tuple(dict.fromkeys(sources))
    return Mark(bracket.start, bracket.end, bracket.text, bracket.numbers, meant_sources, problem)


def _source_of(
    number: int, bracket: Bracket, citations: Citations, catalogue: Catalogue, has_listed: bool
) -> int | Problem:
    named = citations.legend.get(number, ()) if bracket.style != "labelled" else ()
    if len(named) == 1:
        return catalogue.of_url(named[0]) or "not_retrieved"
    if named or number in catalogue.contested:
        return "ambiguous"
    if not has_listed:
        return "no_sources"
    if bracket.style != "number" or not catalogue.by_number:
        return "ambiguous"
    return catalogue.by_number.get(number, "out_of_range")
