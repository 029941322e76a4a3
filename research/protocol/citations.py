"""Citation marks in a report: where they stand and which numbers they name.

What is a mark: `[3]`, `[1, 2]`, `[1-3]`, each of `[1][2]`, a footnote `[^3]`, and labelled ones
such as `[web:0]`; in prose, not in code, not in a link's text or address, not escaped.

What is none:
* four digits and more (`[2024]` is a year), more than `MOST_NUMBERS` numbers, leading zeros;
* an array index: glued to one small letter or to a name with `_` or `$` (`a[1]`, `row_ids[2]`), and
  `[0]` glued to any word. `word[1]` is a mark: upstreams write theirs without a space;
* the second half of such an index (`a[1][2]`), and a footnote whose note names no page.

A line that begins with a bracketed number and holds a link (`[3] Title, https://…`), and a link
definition `[3]: https://…`, are no marks but the report's own list of references: it says what
`[3]` means, better than any numbering of the upstream.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from portal.wire.links import Inline, Link

MOST_NUMBERS = 30
"""One bracket that names more sources is no citation (and could be made to name millions)."""

Style = Literal["number", "footnote", "labelled"]

_NUMBER = r"(?:0|[1-9][0-9]{0,2})"
_DASH = r"[ \t]?[-–—‑‒][ \t]?"
_RANGE = rf"{_NUMBER}(?>(?:{_DASH}{_NUMBER})?)"
_LIST = re.compile(rf"[ \t]*{_RANGE}(?>(?:[ \t]?[,;][ \t]*{_RANGE})*)[ \t]*")
_PART = re.compile(rf"({_NUMBER})(?:{_DASH}({_NUMBER}))?")
_FOOTNOTE = re.compile(rf"\^({_NUMBER})")
_LABELLED = re.compile(rf"[a-z_]{{2,24}}:{_NUMBER}(?>(?:[ \t]?,[ \t]?(?:[a-z_]{{2,24}}:)?{_NUMBER})*)")
_LINE_START = re.compile(r"(?>(?:[ \t>]|[-*+][ \t]|[0-9]{1,3}[.)][ \t]|\*\*)*)\Z")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9_$]{1,40}\Z")
_ENTRY_LINE = 2000
"""How far into its line an entry of a reference list is searched for its link, in characters."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """A mark as it stands: code point offsets, half-open, and the numbers it names, in order."""

    start: int
    end: int
    text: str
    numbers: tuple[int, ...]
    style: Style


@dataclass(frozen=True, slots=True)
class Citations:
    """`legend`: what the text itself says its numbers mean, number → addresses (one, if it is sound).

    `entries`: starts of the links that only list a reference and cite nothing.
    """

    marks: tuple[Bracket, ...]
    legend: dict[int, tuple[str, ...]]
    entries: frozenset[int]


def find_citations(text: str, inline: Inline) -> Citations:
    """All marks of `text`, whose links and brackets are `inline`; linear in its length."""
    legend: dict[int, list[str]] = {}
    marks: list[Bracket] = []
    entries: set[int] = set()
    notes: set[int] = set()
    defined = {link.start: link.url for link in inline.links if link.kind == "definition"}
    for entry in inline.definitions:
        style, numbers = _read(entry.label)
        if style != "labelled" and len(numbers) == 1 and entry.start in defined:
            legend.setdefault(numbers[0], []).append(defined[entry.start])
    for mark in _brackets(text, inline):
        links = _entry_links(text, mark, inline.links)
        if links:
            legend.setdefault(mark.numbers[0], []).append(links[0].url)
            entries.update(link.start for link in links)
        elif mark.style == "footnote" and text.startswith(":", mark.end) and _begins_line(text, mark.start):
            notes.add(mark.numbers[0])
        else:
            marks.append(mark)
    kept = (mark for mark in marks if mark.style != "footnote" or mark.numbers[0] not in notes)
    unique = {number: tuple(dict.fromkeys(urls)) for number, urls in legend.items()}
    return Citations(tuple(kept), unique, frozenset(entries))


def _brackets(text: str, inline: Inline) -> Iterator[Bracket]:
    """Brackets that read as marks, indexes left out."""
    index_end = -1
    link_ends = {link.end for link in inline.links}
    for start, end in inline.brackets:
        style, numbers = _read(text[start + 1 : end - 1])
        if not numbers:
            continue
        is_index = style == "number" and start not in link_ends and _is_index(text, start, numbers)
        if is_index or start == index_end:
            index_end = end
        else:
            yield Bracket(start, end, text[start:end], numbers, style)


def _read(inside: str) -> tuple[Style, tuple[int, ...]]:
    """Style and numbers of what stands between two brackets; no numbers for anything else."""
    if footnote := _FOOTNOTE.fullmatch(inside):
        return "footnote", (int(footnote[1]),)
    if _LABELLED.fullmatch(inside):
        return "labelled", tuple(int(number) for number in re.findall(r"[0-9]+", inside))
    if _LIST.fullmatch(inside):
        return "number", _numbers(inside)
    return "number", ()


def _numbers(inside: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in _PART.finditer(inside):
        first, last = int(part[1]), int(part[2] or part[1])
        if last < first or len(numbers) + last - first >= MOST_NUMBERS:
            return ()
        numbers.extend(range(first, last + 1))
    return tuple(dict.fromkeys(numbers))


def _is_index(text: str, start: int, numbers: tuple[int, ...]) -> bool:
    word = _WORD_BEFORE.search(text, max(0, start - 40), start)
    if not word:
        return False
    name = word[0]
    one_letter = len(name) == 1 and "a" <= name <= "z"
    return one_letter or "_" in name or "$" in name or numbers == (0,)


def _begins_line(text: str, start: int) -> bool:
    """Whether only quotation, list and emphasis marks stand before `start` in its line."""
    newline = text.rfind("\n", max(0, start - 20), start)
    if newline < 0 and start > 20:
        return False
    return _LINE_START.match(text, newline + 1 if newline >= 0 else 0, start) is not None


def _entry_links(text: str, mark: Bracket, links: tuple[Link, ...]) -> tuple[Link, ...]:
    """The links of the line, when `mark` begins an entry of a reference list; else nothing."""
    if len(mark.numbers) != 1 or mark.style == "labelled" or not _begins_line(text, mark.start):
        return ()
    newline = text.find("\n", mark.end, mark.end + _ENTRY_LINE)
    line_end = newline if newline >= 0 else mark.end + _ENTRY_LINE
    first = bisect_left(links, mark.end, key=lambda link: link.start)
    last = bisect_left(links, line_end, key=lambda link: link.start)
    return links[first:last]
