"""The block level of a Markdown text: what is code, what is prose, which link labels are defined.

Not a renderer: just enough of CommonMark, in one pass over the lines, for finding links and
citation marks where a reader would see them. Known to differ: indented code is recognised outside
lists only (in a list, an indented line is nearly always its continuation).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FENCE = r"[ \t>]*+(?>(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?)(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)"
"""A line's start up to the marker of a code fence; to be compiled with MULTILINE."""
_FENCE = re.compile(FENCE, re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_LIST = re.compile(r"[ \t>]*+(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_ALONE = re.compile(r"[ \t>]*+(?:#{1,6}(?:[ \t]|$)|\||(?>(?:[-*_=]\s*+){3,})$)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_DEFINITION = re.compile(
    r" {0,3}\[((?>(?:[^\[\]\\\n]|\\.){1,200}))\]:[ \t]*+(?:<([^<>\n]*+)>|([^<\s]\S*+))"
    r"(?>(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?)\s*+$"
)


@dataclass(frozen=True, slots=True)
class Definition:
    """`[label]: url`, a line that readers do not see. Offsets are code points, half-open."""

    start: int
    end: int
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """`prose`: half-open stretches of text in which inline marks may pair up with each other."""

    prose: tuple[tuple[int, int], ...]
    definitions: tuple[Definition, ...]


def after_fence(fence: str, marker: str, rest: str) -> str:
    """The code fence that is open ("" for none) after a fence line, its marker and what follows it."""
    if not fence:
        return marker
    closes = marker[0] == fence[0] and len(marker) >= len(fence) and not rest.strip()
    return "" if closes else fence


def read_blocks(text: str) -> Blocks:
    """Split `text`; linear in its length."""
    reader = _Reader()
    for match in _LINE.finditer(text):
        reader.read(match.start(), match[0])
    reader.close(len(text))
    return Blocks(tuple(reader.prose), tuple(reader.definitions))


@dataclass(slots=True)
class _Reader:
    """Where the pass stands. `start` is where the open stretch of prose began, or -1."""

    prose: list[tuple[int, int]] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    start: int = -1
    fence: str = ""
    quoted: bool = False
    in_list: bool = False
    after_blank: bool = True

    def close(self, position: int) -> None:
        if self.start >= 0:
            self.prose.append((self.start, position))
            self.start = -1

    def read(self, position: int, line: str) -> None:
        blank = not line.strip()
        if self.fence:
            self._inside_fence(position, line)
        elif blank:
            self.close(position)
        elif self.start < 0 and not self.in_list and _INDENTED.match(line):
            return  # indented code; a blank line inside it changes nothing
        elif not (self._fence_line(position, line) or self._definition(position, line)):
            self._prose(position, line)
        self.after_blank = blank

    def _inside_fence(self, position: int, line: str) -> None:
        if self.quoted and not line.lstrip().startswith(">"):
            self.fence = ""  # the quotation that held the fence is over
            self.read(position, line)
        elif closing := _FENCE.match(line):
            self.fence = after_fence(self.fence, closing["fence"], line[closing.end() :])

    def _fence_line(self, position: int, line: str) -> bool:
        opening = _FENCE.match(line)
        if opening:
            self.close(position)
            self.fence = opening["fence"]
            self.quoted = ">" in line[: opening.start("fence")]
        return opening is not None

    def _definition(self, position: int, line: str) -> bool:
        found = _DEFINITION.match(line) if self.start < 0 else None
        if found:
            url = found[2] if found[2] is not None else found[3]
            self.definitions.append(Definition(position, position + len(line), found[1], url))
        return found is not None

    def _prose(self, position: int, line: str) -> None:
        if _LIST.match(line):
            self.close(position)
            self.in_list = True
        elif self.after_blank and not line[0].isspace():
            self.in_list = False
        if _ALONE.match(line):
            self.close(position)
            self.prose.append((position, position + len(line)))
            self.in_list = self.in_list and line[0].isspace()
        elif self.start < 0:
            self.start = position
