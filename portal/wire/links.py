"""The links of a Markdown text, and the brackets that are none.

One pass over the inline marks of each stretch of prose: code spans are skipped, `[text](url)`,
`[text][label]`, `<url>` and bare addresses become links, any other pair of brackets is handed on
as it stands (citation marks are looked for in those). Every pattern here is possessive and stops
at the next character of its own kind, so the time is linear in the text whatever it holds.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from portal.wire.blocks import Blocks, Definition, read_blocks
from portal.wire.urls import LONGEST, SCHEME, linkable

LinkKind = Literal["bare", "autolink", "inline", "reference", "definition"]

LONGEST_BRACKET = 64
"""Longer bracket pairs are not reported: no citation mark is that long."""

_DEEPEST = 200
"""Brackets nested deeper lose their outermost: memory stays small on a text of brackets only."""

_TOKEN = re.compile(r"\\.|`+|!?\[|\]|<SCHEME[^<>\s]*+>|SCHEME".replace("SCHEME", SCHEME), re.DOTALL)
_RUN = re.compile(r"`+")
_BREAK = r"\s\x00-\x1f\x7f<>\"`|\\^“”„«»‹›「」『』《》〈〉【】（）［］、，。；：！？…"
_ESCAPED = r"\\[!#$%&*+(),\-./:;=?@\[\]_~]"
_MARK_AHEAD = r"(?!\^?[0-9][0-9,;\s–—-]{0,40}\](?!=)|[a-z_]{2,24}:[0-9]{1,3}\])"
_BARE = re.compile(
    rf"{SCHEME}(?>(?:\[[0-9a-fA-F:.]{{2,45}}\])?)"
    rf"(?>(?:[^{_BREAK}()\[\]{{}}]|{_ESCAPED}"
    rf"|\((?>(?:[^{_BREAK}()]|\([^{_BREAK}()]*+\))*)\)"
    rf"|\[{_MARK_AHEAD}[^{_BREAK}\[\]]*+\]|\{{[^{_BREAK}{{}}]*+\}})*)"
)
_TRAILING = re.compile(r"(?:[.,;:!?'’‘*_~]|&[a-z0-9]{1,31};)\Z", re.IGNORECASE)
_TITLE = r"\"(?>(?:[^\"\\]|\\.)*)\"|'(?>(?:[^'\\]|\\.)*)'|\((?>(?:[^()\\]|\\.)*)\)"
_INLINE = re.compile(
    r"\(\s*+(?:<([^<>\n]*+)>|((?>(?:[^\s()<>\\]|\\.|\((?>(?:[^\s()]|\([^\s()]*+\))*)\))*)))"
    rf"(?>(?:\s++(?:{_TITLE}))?)\s*+\)",
    re.DOTALL,
)
_LABEL = re.compile(r"\[((?>(?:[^\[\]\\]|\\.){0,200}))\]", re.DOTALL)
_NUMERIC = re.compile(r"\^?[0-9]{1,3}")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)
_BACKSLASH = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class Link:
    """A link to an `http(s)` page, its whole markup from `start` to `end` (code points, half-open)."""

    start: int
    end: int
    url: str
    kind: LinkKind


@dataclass(frozen=True, slots=True)
class Inline:
    """What a text holds, each in order of `start`."""

    links: tuple[Link, ...]
    brackets: tuple[tuple[int, int], ...]
    """Bracket pairs that are no links and stand in none, brackets included."""
    definitions: tuple[Definition, ...]


def find_links(text: str) -> Inline:
    """Links and other brackets of `text`, outside code. Images are no links; nothing in them is."""
    blocks = read_blocks(text)
    labels = _labels(blocks)
    links: list[Link] = []
    brackets: list[tuple[int, int]] = []
    for start, end in blocks.prose:
        scan = _Scan(text, end, labels)
        scan.run(start)
        links += scan.links
        brackets += scan.brackets
    links += (
        Link(entry.start, entry.end, url, "definition")
        for entry in blocks.definitions
        if (url := linkable(_destination(entry.url)))
    )
    links.sort(key=lambda link: link.start)
    brackets.sort()
    return Inline(tuple(links), tuple(brackets), blocks.definitions)


def _labels(blocks: Blocks) -> dict[str, str]:
    """Label → address; the first definition counts."""
    labels: dict[str, str] = {}
    for entry in blocks.definitions:
        labels.setdefault(_folded(entry.label), _destination(entry.url))
    return labels


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def _destination(raw: str) -> str:
    """An address out of Markdown: entities and backslash escapes resolved."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]), _BACKSLASH.sub(r"\1", raw))


def _trimmed(address: str) -> str:
    """A bare address without the punctuation that belongs to the sentence around it."""
    while len(address) <= LONGEST and (match := _TRAILING.search(address, max(0, len(address) - 33))):
        address = address[: match.start()]
    return address


@dataclass(slots=True)
class _Scan:
    """One stretch of prose. `opened`: the brackets still open, (position, is it an image's)."""

    text: str
    end: int
    labels: dict[str, str]
    links: list[Link] = field(default_factory=list)
    brackets: list[tuple[int, int]] = field(default_factory=list)
    opened: deque[tuple[int, bool]] = field(default_factory=lambda: deque(maxlen=_DEEPEST))
    sealed: int = -1
    """Brackets opened before here hold a link already: they cannot become one."""
    closers: dict[int, list[int]] | None = None

    def run(self, position: int) -> None:
        start = position
        while match := _TOKEN.search(self.text, position, self.end):
            position = match.end()
            token = match[0]
            if token[0] == "`":
                position = self._code_end(start, position, len(token))
            elif token[-1] == "[":
                self.opened.append((match.start(), token[0] == "!"))
            elif token == "]":
                position = self._close(match.start())
            elif token[0] == "<":
                self._add(match.start(), position, _destination(token[1:-1]), "autolink")
            elif token[0] in "hH":
                position = self._bare(match.start())

    def _code_end(self, start: int, position: int, length: int) -> int:
        """Where to go on after `length` backticks that end at `position`."""
        if self.closers is None:
            self.closers = {}
            for run in _RUN.finditer(self.text, start, self.end):
                self.closers.setdefault(run.end() - run.start(), []).append(run.start())
        same = self.closers.get(length, [])
        following = bisect_left(same, position)
        return same[following] + length if following < len(same) else position

    def _bare(self, start: int) -> int:
        match = _BARE.match(self.text, start, self.end)
        if match is None or (start and self.text[start - 1].isalnum() and self.text[start - 1].isascii()):
            return start + len("http")
        address = _trimmed(match[0])
        self._add(start, start + len(address), _destination(address), "bare")
        return match.end()

    def _add(self, start: int, end: int, address: str, kind: LinkKind) -> None:
        url = linkable(address)
        if url:
            self.links.append(Link(start, end, url, kind))

    def _close(self, closer: int) -> int:
        """The bracket closed at `closer`; where to go on."""
        after = closer + 1
        if not self.opened:
            return after
        opener, is_image = self.opened.pop()
        if is_image or opener > self.sealed:
            found = self._target(opener + (2 if is_image else 1), closer)
            if found:
                end, address, kind = found
                self._drop_inside(opener)
                if not is_image:
                    self._add(opener, end, address, kind)
                    self.sealed = opener
                return end
        if not is_image and after - opener <= LONGEST_BRACKET:
            self.brackets.append((opener, after))
        return after

    def _target(self, inside: int, closer: int) -> tuple[int, str, LinkKind] | None:
        """End, address and kind of the link whose text stands from `inside` to `closer`."""
        after = closer + 1
        if inline := _INLINE.match(self.text, after, self.end):
            address = inline[1] if inline[1] is not None else inline[2]
            return inline.end(), _destination(address), "inline"
        if not self.labels or closer - inside > 400:
            return None
        shown = self.text[inside:closer]
        label = _LABEL.match(self.text, after, self.end)
        name = (label[1].strip() or shown) if label else shown
        address = self.labels.get(_folded(name), "")
        if not address or _NUMERIC.fullmatch(shown.strip()):
            return None
        return (label.end() if label else after), address, "reference"

    def _drop_inside(self, opener: int) -> None:
        while self.links and self.links[-1].start > opener:
            self.links.pop()
        while self.brackets and self.brackets[-1][0] > opener:
            self.brackets.pop()
