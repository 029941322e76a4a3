"""Markdown → safe HTML, once per report, by the worker (STACK §5, Markdown).

Three walls, each enough alone: the parser takes no HTML, the renderer writes only what the token
walk below allows, and nh3 lets nothing but a short list of elements through. No image, no script,
no style attribute, no address but http and https.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import unescape
from typing import Protocol
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from research.protocol.outcome import Source
from research.protocol.urls import host_label, linkable

OPEN, CLOSE = "\u2045", "\u2046"
DIGITS = "\ue0d0\ue0d1\ue0d2\ue0d3\ue0d4\ue0d5\ue0d6\ue0d7\ue0d8\ue0d9"
_FORGED = re.compile(f"[{DIGITS}]")
_MARK = re.compile(f"{OPEN}([{DIGITS}]+){CLOSE}")
_BARE_URL = re.compile(r"https?://[^\s<>\"`\\^{}|]+", re.IGNORECASE)
_HEADING = re.compile(r'<h([2-6]) id="(s-\d+)"[^>]*>(.*?)</h\1>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_CHIP = re.compile(r"<sup\b.*?</sup>", re.DOTALL)
_OWN_ANCHOR = re.compile(r"#source-\d+")
BLOCKS = frozenset({"paragraph_open", "heading_open", "blockquote_open", "list_item_open", "th_open", "td_open"})
ALLOWED: dict[str, set[str]] = {
    "a": {"href", "data-source"}, "blockquote": {"dir"}, "br": set(), "code": {"dir"}, "del": set(),
    "div": {"tabindex"}, "em": set(), "hr": set(), "li": {"dir"}, "ol": {"start"}, "p": {"dir"},
    "pre": {"tabindex", "dir"}, "strong": set(), "sup": set(), "table": set(), "tbody": set(),
    "td": {"dir"}, "th": {"dir"}, "thead": set(), "tr": set(), "ul": set(),
} | {f"h{level}": {"id", "dir"} for level in range(2, 7)}
CLASSES = {"sup": {"cites"}, "div": {"table"}, "th": {"right", "center"}, "td": {"right", "center"}}


class Span(Protocol):
    """A citation mark as `research.protocol.citations` finds it: half-open offsets, source numbers."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def numbers(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of the contents: `level` is 2..6, `id` the anchor in the report's HTML."""

    level: int
    id: str
    text: str


def render_report(text: str, marks: Sequence[Span], sources: Sequence[Source]) -> str:
    """`text` as HTML, its citation `marks` as links to `#source-N`. Never raises on any text."""
    known = {source.number: source for source in sources}
    usable = [mark for mark in marks if any(number in known for number in mark.numbers)]
    written = _Writer(text, usable, known)
    tokens = _PARSER.parse(_with_placeholders(text, usable))
    return _clean(_PARSER.renderer.render(list(written.blocks(tokens)), _PARSER.options, {}))


def contents_of(html: str) -> list[Heading]:
    """The headings of what `render_report` wrote, in order, as plain text."""
    return [
        Heading(int(level), anchor, unescape(_TAG.sub("", _CHIP.sub("", inner))).strip())
        for level, anchor, inner in _HEADING.findall(html)
    ]
