"""The sources of a report: every page the upstream listed, once, under a number that marks can use.

Upstream numbers are kept, because the marks in the text mean them. Two upstream entries for one
page become one source that both numbers lead to. A number given to two pages stays with the first,
and marks that use it are told to be ambiguous. What has no number gets the lowest that neither the
upstream nor any mark uses, so that no `[9]` in the text ever seems to mean a page that it does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import count

from portal.wire.urls import host_label, linkable, normalise
from research.protocol.outcome import Finished, Found, Provenance, Source

_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:(?://[^/?#]*+)?")
"""What of an address can be written in either case."""
UNNAMED = "Source without a usable address"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Sources by number, and the ways that lead to them."""

    sources: tuple[Source, ...]
    by_number: dict[int, int]
    """Number as the upstream or the text uses it → number of our source, where it is clear."""
    contested: frozenset[int]
    """Numbers given to different pages."""
    by_key: dict[str, int]
    """Normalised address → number of our source."""

    def of_url(self, url: str) -> int | None:
        key = normalise(url)
        return self.by_key.get(key) if key else None


def listed(finished: Finished) -> tuple[Found, ...]:
    """All pages the upstream named: what its searches brought, then what it opened."""
    opened = (Found(page.url, page.title, page.snippet) for page in finished.fetched)
    return tuple(item for item in (*finished.found, *opened) if item.url.strip() or item.title.strip())


def catalogue(found: Iterable[Found], reserved: Set[int], provenance: Provenance) -> Catalogue:
    """Number `found`, keeping `reserved` for the marks of the text.

    Sources in = sources out, but for repetitions of one page. An
    address that must not become a link leaves a source with `url` "".
    """
    pages = _pages(found)
    claimed = Counter(number for items in pages.values() for number in set(_numbers(items)))
    free = (number for number in count(1) if number not in claimed and number not in reserved)
    sources: list[Source] = []
    by_number: dict[int, int] = {}
    for items in pages.values():
        numbers = _numbers(items)
        own = next((number for number in numbers if by_number.get(number) is None), None)
        source = _source(items, next(free) if own is None else own, provenance)
        sources.append(source)
        for number in numbers:
            by_number.setdefault(number, source.number)
    sources.sort(key=lambda source: source.number)
    contested = frozenset(number for number, pages_of in claimed.items() if pages_of > 1)
    clear = {number: own for number, own in by_number.items() if number not in contested}
    by_key = {key: source.number for source in sources if (key := normalise(source.url))}
    return Catalogue(tuple(sources), clear, contested, by_key)


def relabelled(found: Iterable[Found], legend: Mapping[int, tuple[str, ...]]) -> list[Found]:
    """`found` under the numbers that the text's own list of references gives, where it has one."""
    numbers = {normalise(urls[0]): number for number, urls in legend.items() if len(urls) == 1}
    items: list[Found] = []
    for item in found:
        number = numbers.get(normalise(item.url)) if numbers else None
        if number is not None:
            items.append(replace(item, number=number))
        elif item.number in legend:
            items.append(replace(item, number=None))
        else:
            items.append(item)
    return items


def _pages(found: Iterable[Found]) -> dict[str, list[Found]]:
    """What was said of each page, pages in order of their first mention."""
    items = list(found)
    titles: dict[str, str] = {}
    for item in items:
        if item.title.strip():
            titles.setdefault(item.url.strip(), item.title.strip())
    pages: dict[str, list[Found]] = {}
    for item in items:
        pages.setdefault(_identity(item, titles), []).append(item)
    return pages


def _identity(item: Found, titles: Mapping[str, str]) -> str:
    """The same for what is one page. An address that must not become a link still is one; what is none
    at all, like "file 7", needs its title, where it comes without one the first in `titles`."""
    address = item.url.strip()
    key = normalise(address)
    if key is not None:
        return key
    if place := _PLACE.match(address):
        return place[0].lower() + address[place.end() :]
    title = item.title.strip() or (titles.get(address, "") if address else "")
    return f"{address} {title}"


def _numbers(items: list[Found]) -> list[int]:
    return [item.number for item in items if item.number is not None and item.number > 0]


def _source(items: list[Found], number: int, provenance: Provenance) -> Source:
    """One page; the first word on each matter counts."""
    url = linkable(items[0].url) or ""
    title = next((item.title for item in items if item.title.strip()), "")
    return Source(
        number=number,
        url=url,
        title=title.strip() or host_label(url) or UNNAMED,
        provenance=provenance,
        snippet=next((item.snippet for item in items if item.snippet), ""),
        date=next((item.date for item in items if item.date), None),
    )
