"""Markdown → safe HTML: of a report once, by the worker; of a chat's answer as it grows (STACK §5, Markdown).

Three walls, each enough alone: the parser takes no HTML, the renderer writes only the tokens it
gets, and nh3 lets nothing but a short list of elements through. No image, no script, no style
attribute, no address but http and https.

Citation marks travel through the parser as placeholders, so that their offsets into the text stay
good whatever Markdown makes of the text around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import starmap
from typing import Any, Protocol
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from portal.wire.links import find_links
from portal.wire.urls import linkable

# A placeholder is punctuation at both ends, as "[1]" is: emphasis around it pairs up as it would
# around the mark. The digits between are private-use characters, taken out of the text beforehand.
OPEN, CLOSE = "\u2045", "\u2046"
DIGITS = "\ue0d0\ue0d1\ue0d2\ue0d3\ue0d4\ue0d5\ue0d6\ue0d7\ue0d8\ue0d9"
_TO_DIGITS = str.maketrans("0123456789", DIGITS)
_FROM_DIGITS = str.maketrans(DIGITS, "0123456789")
_UNFIT = re.compile(f"[{DIGITS}\ud800-\udfff]")
_PLACEHOLDER = re.compile(f"{OPEN}([{DIGITS}]+){CLOSE}")
_ESCAPED_PLACEHOLDER = re.compile("%E2%81%85((?:%EE%83%9[0-9])+)%E2%81%86")
_HEADING = re.compile(r'<h([2-6])[^>]* id="(s-\d+)"[^>]*>(.*?)</h\1>', re.DOTALL)
_CHIPS = re.compile(r"<sup\b.*?</sup>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_OWN_ANCHOR = re.compile(r"#source-(?:[0-9a-f]{32}-)?\d+", re.ASCII)

TAGS = {
    "a", "blockquote", "br", "code", "div", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {tag: {"dir"} for tag in TAGS} | {
    "*": set(),  # nh3 would let `title` and `lang` through
    "a": {"href", "data-source", "aria-label"},
    "div": {"tabindex"},
    "pre": {"tabindex", "dir"},
    "ol": {"start", "dir"},
    **{f"h{level}": {"id", "dir"} for level in range(2, 7)},
}
CLASSES = {
    "div": {"table"},
    "span": {"unsure"},
    "sup": {"cites"},
    "td": {"right", "center"},
    "th": {"right", "center"},
}


class Mark(Protocol):
    """A citation mark: code point offsets into the text, half-open, and the numbers of its sources.

    With a `problem` it stays as written; an empty one stands between two characters.
    """

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def sources(self) -> tuple[int, ...]: ...
    @property
    def problem(self) -> str | None: ...


class Source(Protocol):
    """A source that marks may name."""

    @property
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of the contents: `level` is 2..6, `id` the anchor in the report's HTML."""

    level: int
    id: str
    text: str


def render_markdown(text: str, marks: Sequence[Mark], sources: Sequence[Source], place: str = "") -> str:
    """`text` as HTML, its citation marks as links to `#source-N`. Raises nothing, whatever the text.

    Where a page holds several texts, `place` (32 hex digits and a dash) stands before N in one's anchors.

    What a mark with a problem cites is not known: it stays as its author wrote it, and looks so.
    """
    usable = _apart(marks)
    page = _Page(text, usable, frozenset(source.number for source in sources), place)
    tokens = _MARKDOWN.parse(_with_placeholders(text, usable))
    html = _MARKDOWN.renderer.render(page.rewrite(tokens), _MARKDOWN.options, {})
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        allowed_classes=CLASSES,
        url_schemes={"http", "https"},
        url_relative=_own_anchor,
        link_rel="nofollow noopener noreferrer",
    )


def contents_of(html: str) -> list[Heading]:
    """The headings of what `render_markdown` wrote, in order, as plain text without marks."""
    return [
        Heading(int(level), anchor, unescape(_TAG.sub("", _CHIPS.sub("", inner))).strip())
        for level, anchor, inner in _HEADING.findall(html)
    ]


def _apart(marks: Iterable[Mark]) -> list[Mark]:
    """The marks in order, no two on the same text."""
    found: list[Mark] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        if not found or mark.start >= found[-1].end:
            found.append(mark)
    return found


def _with_placeholders(text: str, marks: Sequence[Mark]) -> str:
    text = _UNFIT.sub("\ufffd", text)
    parts, position = [], 0
    for index, mark in enumerate(marks):
        parts += [text[position : mark.start], OPEN, str(index).translate(_TO_DIGITS), CLOSE]
        position = mark.end
    return "".join([*parts, text[position:]])


def _own_anchor(url: str) -> str | None:
    """Of addresses without a scheme only our own may stay: they would lead into the portal."""
    return url if _OWN_ANCHOR.fullmatch(url) else None


@dataclass(frozen=True, slots=True)
class _Page:
    """One report on its way from tokens to HTML."""

    text: str
    marks: Sequence[Mark]
    known: frozenset[int]
    place: str

    def rewrite(self, tokens: list[Token]) -> list[Token]:
        headings = 0
        for token in tokens:
            if token.level == 0 and token.nesting == 1:
                token.attrSet("dir", "auto")
            if token.type == "heading_open":
                headings += 1
                token.attrSet("id", f"s-{self.place}{headings}")
            if token.type in {"heading_open", "heading_close"}:
                token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"  # the page's own title is the h1
            elif token.type in {"th_open", "td_open"}:
                _align(token)
            elif token.children is not None:
                token.children = list(self._inline(token.children))
            else:
                token.content = self._restore(token.content)
        return tokens

    def _inline(self, children: list[Token]) -> Iterator[Token]:
        depth = 0
        for token in children:
            depth += token.nesting if token.type.startswith("link_") else 0
            if token.type == "link_open":
                token.attrSet("href", self._restore_escaped(str(token.attrGet("href") or "")))
            if token.type == "text" and not depth:
                yield from self._pieces(token.content)
            elif token.type == "image":
                alt = self._restore(token.content) or "image"
                url = linkable(self._restore_escaped(str(token.attrGet("src") or "")))
                yield from [_text(alt)] if depth or not url else _link(url, alt)
            else:
                token.content = self._restore(token.content)
                yield token

    def _pieces(self, content: str) -> Iterator[Token]:
        """A stretch of text with its marks and bare addresses taken out as tokens of their own."""
        position = 0
        for match in _PLACEHOLDER.finditer(content):
            mark = self.marks[int(match[1].translate(_FROM_DIGITS))]
            before = content[position : match.start()]
            # A raised mark stands close to its word, and never alone on the next line.
            yield from _linked(before if mark.problem else before.rstrip(" "))
            yield from self._cite(mark)
            position = match.end()
        yield from _linked(content[position:])

    def _cite(self, mark: Mark) -> Iterator[Token]:
        numbers = [number for number in mark.sources if number in self.known]
        if mark.problem or not numbers:
            yield Token("unsure", "", 0, content=self.text[mark.start : mark.end])
        if numbers:
            yield Token(
                "cite", "", 0, meta={"anchors": [(f"{self.place}{number}", number) for number in numbers]}
            )

    def _restore(self, content: str) -> str:
        """`content` with its placeholders turned back into what the author wrote."""
        return _PLACEHOLDER.sub(lambda match: self._written(match[1].translate(_FROM_DIGITS)), content)

    def _restore_escaped(self, url: str) -> str:
        return _ESCAPED_PLACEHOLDER.sub(lambda match: quote(self._written(match[1][8::9])), url)

    def _written(self, index: str) -> str:
        mark = self.marks[int(index)]
        return self.text[mark.start : mark.end]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(url: str, text: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": url}), _text(text), Token("link_close", "a", -1)]


def _linked(content: str) -> Iterator[Token]:
    """Text whose bare addresses are links: Markdown by itself leaves them dead."""
    position = 0
    for link in find_links(content).links if "://" in content else ():
        if link.kind == "bare":
            yield _text(content[position : link.start])
            yield from _link(link.url, content[link.start : link.end])
            position = link.end
    yield _text(content[position:])


def _align(token: Token) -> None:
    """Alignment as a class: a style attribute would break the Content-Security-Policy."""
    style = str(token.attrs.pop("style", ""))
    if align := style.removeprefix("text-align:"):
        token.attrSet("class", align)


def _cite_html(renderer: object, tokens: Sequence[Token], index: int, options: object, env: object) -> str:
    return '<sup class="cites">' + "".join(starmap(_chip, tokens[index].meta["anchors"])) + "</sup>"


def _chip(anchor: str, number: int) -> str:
    return f'<a href="#source-{anchor}" data-source="{anchor}" aria-label="Source {number}">{number}</a>'


def _unsure_html(renderer: object, tokens: Sequence[Token], index: int, options: object, env: object) -> str:
    return f'<span class="unsure">{escape(tokens[index].content)}</span>'


def _code_html(renderer: object, tokens: Sequence[Token], index: int, options: object, env: object) -> str:
    return f'<pre tabindex="0" dir="ltr"><code>{escape(tokens[index].content)}</code></pre>\n'


def _table_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: object) -> str:
    table: str = renderer.renderToken(tokens, index, options, env)
    return f'<div class="table" tabindex="0">{table}'


def _table_close(renderer: object, tokens: Sequence[Token], index: int, options: object, env: object) -> str:
    return "</table></div>\n"


def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for token, rule in {
        "cite": _cite_html,
        "unsure": _unsure_html,
        "fence": _code_html,
        "code_block": _code_html,
        "table_open": _table_open,
        "table_close": _table_close,
    }.items():
        markdown.add_render_rule(token, rule)
    return markdown


_MARKDOWN = _parser()
