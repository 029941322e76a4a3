"""Which stretch of an answer a citation mark speaks for.

The upstream puts a mark behind what it supports. The marks are taken out of the text, so a citation
covers the sentence before its place; at the very start of a line, the words after it.
"""

from __future__ import annotations

import re

from proxy.protocol.cleaning import Mark
from proxy.protocol.delta import Checks, Citation, Source

_LONGEST = 400
"""Characters that one citation may cover."""
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]*_]*\s+|[。！？]+|\n\s*")
_LEAD = re.compile(r"[\s>#|*_\-]*")
_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)


def locate(content: str, marks: tuple[Mark, ...], sources: tuple[Source, ...]) -> tuple[Citation, ...]:
    """A citation per mark, in order; those without a web address or without any text are left out."""
    found: list[Citation] = []
    for mark in marks:
        source = sources[mark.number - 1] if mark.number <= len(sources) else None
        span = _span(content, mark.position)
        if source and span and _WEB.match(source.url):
            citation = Citation(*span, source)
            if citation not in found[-8:]:
                found.append(citation)
    return tuple(found)


def check(marks: tuple[Mark, ...], sources: tuple[Source, ...]) -> Checks:
    """What of `marks` leads to no page."""
    by_number = dict(enumerate(sources, 1))
    numbers = dict.fromkeys(mark.number for mark in marks)
    beyond = [number for number in numbers if number not in by_number]
    nowhere = [number for number in numbers if number in by_number and not _WEB.match(by_number[number].url)]
    return Checks(_as_text(beyond), _as_text(nowhere))


def _as_text(numbers: list[int]) -> tuple[str, ...]:
    return tuple(f"[{number}]" for number in numbers)


def _span(content: str, position: int) -> tuple[int, int] | None:
    start, end = _sentence_before(content, position)
    if start >= end:
        start, end = _words_after(content, position)
    return (start, end) if start < end else None


def _sentence_before(content: str, position: int) -> tuple[int, int]:
    floor = max(0, position - _LONGEST)
    before = content[floor:position]
    line = before.rfind("\n") + 1
    text = before[line:].rstrip()
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if match.end() < len(text)]
    start = ends[-1] if ends else 0
    lead = _LEAD.match(text, start)
    return floor + line + (lead.end() if lead else start), floor + line + len(text)


def _words_after(content: str, position: int) -> tuple[int, int]:
    after = content[position : position + _LONGEST]
    lead = _LEAD.match(after)
    start = lead.end() if lead else 0
    end = _SENTENCE_END.search(after, start)
    text = after[start : end.end() if end else len(after)].rstrip()
    return position + start, position + start + len(text)
