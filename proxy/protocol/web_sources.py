"""The pages an answer names. Citation `[n]` is the nth of the final list (perplexity-web §7).

The upstream tells its sources in several places; the best place that was seen decides, and within
it the latest list. An empty list never replaces a full one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from proxy.protocol.delta import Source, SourceFound
from proxy.protocol.tolerant import object_of, text_of

MOST_SOURCES = 1000
"""Numbers beyond are not kept: no citation mark has four digits."""


class Place(IntEnum):
    """Where a list came from, worst first."""

    SEARCH_STEP = 1  # the results of one search among several
    WORKFLOW = 2
    TOP_LEVEL = 3  # the legacy member of the frame
    SOURCES_TAB = 4
    FINAL_STEP = 5
    BLOCK = 6  # `web_results`


def read_source(item: object) -> Source | None:
    """One web result item; None without an address."""
    result = object_of(item)
    url = text_of(result.get("url")).strip()
    if not url:
        return None
    meta = object_of(result.get("meta_data"))
    date = (
        text_of(result.get("timestamp")) or text_of(meta.get("published_date")) or text_of(meta.get("date"))
    )
    title = text_of(result.get("name")) or text_of(result.get("title"))
    return Source(url, title.strip(), text_of(result.get("snippet")), date)


@dataclass(slots=True)
class SourceList:
    """The list as it stands."""

    _sources: list[Source | None] = field(default_factory=list)
    """None keeps the number of an item without an address, so that the others keep theirs."""
    _place: int = 0
    _raw: list[object] = field(default_factory=list)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Dense in the numbers that citations use: an item without an address is an empty source."""
        return tuple(source or Source("") for source in self._sources)

    def replace(self, place: Place, items: list[object]) -> Iterator[SourceFound]:
        """A whole list."""
        if not items or place < self._place or (place == self._place and items == self._raw):
            return
        self._begin(place)
        self._raw = items[:MOST_SOURCES]
        del self._sources[len(self._raw) :]
        yield from self._put(list(enumerate(self._raw)), len(self._raw))

    def update(self, place: Place, items: list[tuple[int, object]], length: int) -> Iterator[SourceFound]:
        """Single places of a list that is patched: (index from 0, item); `length` of the whole list."""
        if place >= self._place and length:
            self._begin(place)
            del self._sources[length:]
            yield from self._put(items, length)

    def extend(self, place: Place, items: list[object]) -> Iterator[SourceFound]:
        """One of several partial lists: what it adds, by address."""
        if place < self._place or not items:
            return
        self._begin(place)
        known = {source.url for source in self._sources if source}
        found = {source.url: item for item in items if (source := read_source(item))}
        new = [item for url, item in found.items() if url not in known]
        first = len(self._sources)
        yield from self._put(list(enumerate(new, first)), first + len(new))

    def _begin(self, place: Place) -> None:
        if place != self._place:
            self._sources.clear()
            self._raw = []
            self._place = place

    def _put(self, items: list[tuple[int, object]], length: int) -> Iterator[SourceFound]:
        for index, item in items:
            if index >= MOST_SOURCES:
                return
            source = read_source(item)
            self._sources.extend([None] * (index + 1 - len(self._sources)))
            if source != self._sources[index]:
                self._sources[index] = source
                if source:
                    yield SourceFound(index + 1, min(length, MOST_SOURCES), source)
