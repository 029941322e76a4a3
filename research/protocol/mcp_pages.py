"""A report in pages that a model can take in one answer (agent-api §9.2).

Joined, the pages are the report, byte for byte: a page ends where the text offers an end, and nothing is
added or left out.
"""

from __future__ import annotations

import re

PAGE_SIZE = 12_000
"""Characters (code points) of a page at most."""
LONGEST_MARK = 7
"""Characters of a heading's mark, which may stand where the next page begins."""
_ENDS = (
    re.compile(r"\n(?=#{1,6} )"),  # before a heading
    re.compile(r"\n[ \t]*\r?\n"),  # after a paragraph
    re.compile(r"\n"),
    re.compile(r" "),
)
"""Where a page may end, the best first."""


def pages_of(text: str, size: int = PAGE_SIZE) -> list[str]:
    """At least one page, and none longer than `size`."""
    pages, start = [], 0
    while len(text) - start > size:
        end = _end_of_page(text, start, size)
        pages.append(text[start:end])
        start = end
    return [*pages, text[start:]]


def _end_of_page(text: str, start: int, size: int) -> int:
    """The last good end in the second half of what fits; without any, the page is full."""
    full = start + size
    for pattern in _ENDS:
        found = pattern.finditer(text, start + size // 2, full + LONGEST_MARK)
        ends = [match.end() for match in found if match.end() <= full]
        if ends:
            return ends[-1]
    return full
