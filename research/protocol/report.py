"""A finished job's text and sources, made into the report that every door delivers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from portal.wire.links import Inline, Link, find_links
from portal.wire.urls import normalise
from research.protocol.attribution import Mark, attribute
from research.protocol.citations import Citations, find_citations
from research.protocol.outcome import Finished, Found, Provenance, Source
from research.protocol.sources import Catalogue, catalogue, listed, relabelled
from research.protocol.thinking import split_thinking

_SHOWN = 5
"""Most marks named in one notice."""


@dataclass(frozen=True, slots=True)
class CitedLink:
    """A link in the text that points at a source: its markup's offsets and the source's number."""

    start: int
    end: int
    source: int


@dataclass(frozen=True, slots=True)
class Checks:
    """What does not fit between text and sources; each without repetitions, in order of the text."""

    out_of_range: tuple[str, ...] = ()
    """Marks with a number that no source has."""
    unattributed: tuple[str, ...] = ()
    """Marks that cannot be attributed for any other reason."""
    unused: tuple[int, ...] = ()
    """Sources that nothing in the text points at."""
    unlisted: tuple[str, ...] = ()
    """Addresses in the text that the upstream did not list; () when it listed none at all."""


@dataclass(frozen=True, slots=True)
class Report:
    """`text`: Markdown without think-blocks; all offsets are code points into it, half-open.

    `sources` are in order of their numbers, which may have gaps: marks keep their meaning.
    `notices` are sentences for people about how far the report can be trusted.
    """

    text: str
    thinking: str
    sources: tuple[Source, ...]
    marks: tuple[Mark, ...]
    links: tuple[CitedLink, ...]
    checks: Checks
    notices: tuple[str, ...]


def build_report(finished: Finished) -> Report:
    """Provenance: `cited` where a sound mark or a link points at a source, else `retrieved`; when
    the upstream listed nothing, the links of the text become `recovered` sources."""
    thought = split_thinking(finished.text)
    text = thought.text.strip()
    inline = find_links(text)
    citations = find_citations(text, inline)
    found = listed(finished)
    known = _catalogue(found, citations, inline)
    marks = attribute(citations, known, has_listed=bool(found))
    links = _cited_links(inline, citations, known)
    cited = {number for mark in marks for number in mark.sources} | {link.source for link in links}
    checks = _checks(marks, known, cited, inline, has_listed=bool(found))
    sources = _with_provenance(known.sources, cited) if found else known.sources
    notices = _notices(finished, len(known.sources), bool(found), marks)
    return Report(text, thought.thinking, sources, marks, links, checks, notices)


def url_citations(report: Report) -> list[dict[str, Any]]:
    """Flat `url_citation` members (openai-compat §3), one per mark and source it means, and per link
    to a source. Recovered links are told as sources, never as citations."""
    by_number = {source.number: source for source in report.sources if source.url}
    spans = [(mark.start, mark.end, number) for mark in report.marks for number in mark.sources]
    spans += [(link.start, link.end, link.source) for link in report.links]
    return [
        {
            "type": "url_citation",
            "url": by_number[number].url,
            "title": by_number[number].title,
            "start_index": start,
            "end_index": end,
        }
        for start, end, number in sorted(spans)
        if number in by_number and by_number[number].provenance != "recovered"
    ]


def _catalogue(found: tuple[Found, ...], citations: Citations, inline: Inline) -> Catalogue:
    reserved = {number for mark in citations.marks for number in mark.numbers} | set(citations.legend)
    provenance: Provenance = "retrieved" if found else "recovered"
    pages = found or [Found(link.url) for link in inline.links]
    return catalogue(relabelled(pages, citations.legend), reserved, provenance)


def _cited_links(inline: Inline, citations: Citations, known: Catalogue) -> tuple[CitedLink, ...]:
    links = [link for link in inline.links if _cites(link, citations)]
    numbers = [(link, known.of_url(link.url)) for link in links]
    return tuple(CitedLink(link.start, link.end, number) for link, number in numbers if number is not None)


def _cites(link: Link, citations: Citations) -> bool:
    return link.kind != "definition" and link.start not in citations.entries


def _with_provenance(sources: tuple[Source, ...], cited: Set[int]) -> tuple[Source, ...]:
    return tuple(
        replace(source, provenance="cited") if source.number in cited else source for source in sources
    )


def _checks(
    marks: tuple[Mark, ...], known: Catalogue, cited: Set[int], inline: Inline, *, has_listed: bool
) -> Checks:
    checks = Checks(
        out_of_range=_texts(marks, "out_of_range"),
        unattributed=_texts(marks, "ambiguous", "not_retrieved", "no_sources"),
    )
    if not has_listed:
        return checks
    unlisted = {normalise(link.url): link.url for link in reversed(inline.links)}
    return replace(
        checks,
        unused=tuple(source.number for source in known.sources if source.number not in cited),
        unlisted=tuple(url for key, url in reversed(unlisted.items()) if key not in known.by_key),
    )


def _texts(marks: tuple[Mark, ...], *problems: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mark.text for mark in marks if mark.problem in problems))


def _notices(finished: Finished, sources: int, has_listed: bool, marks: tuple[Mark, ...]) -> tuple[str, ...]:
    notices: list[str] = []
    if not finished.complete:
        reason = f" ({finished.reason})" if finished.reason else ""
        notices.append(f"This report is incomplete: the upstream stopped before its end{reason}.")
    if not has_listed and sources:
        links = "1 link below was" if sources == 1 else f"{sources} links below were"
        notices.append(
            f"The upstream returned no sources. The {links} recovered from the report text and not verified."
        )
    elif not has_listed:
        notices.append("The upstream returned no sources: nothing in this report is attributed.")
    bad = tuple(dict.fromkeys(mark.text for mark in marks if mark.problem))
    if bad:
        shown = ", ".join(bad[:_SHOWN]) + (f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else "")
        notices.append(f"Citation marks that point at no known source: {shown}.")
    return tuple(notices)
