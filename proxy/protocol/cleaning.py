"""Takes out of an answer what is not for readers, while it streams (proxy-contract §7, §17.23).

Removed: citation marks `[n]` that name a source, `<?xml …?>`, `<grok:…>` elements with their content,
`<response>` tags, `<script>` elements with their content; and the blanks between a word and marks that
stood before a full stop or its like: `so [1].` reads `so.` Everything else stays, to the blank.

Not as the original did, whose patterns also hit what only looks alike:
* code is kept: fenced, indented, and spans between backticks (up to `LONGEST_SPAN` characters);
* `[n]` stays when no source has that number, when it is an index (glued to one small letter, to a
  name with `_` or `$`, or to another index), when a link target follows, when it is escaped, and
  when it defines a link (`[1]: …` at the start of a line);
* a tag is known by its whole name: `<responsetime>` stays.

Only text that the coming characters could still change is held back, blanks at its end among it, so
the output is the same however the input was cut. While no source is known at all, a mark waits for
the list, but for no more than `PATIENCE` characters. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

LONGEST_SPAN = 500
LONGEST_TAG = 2000
LONGEST_INFO = 200
"""Of the words behind an opening code fence."""
PATIENCE = 1000
NO_SOURCE = -1
"""As `sources`: no number will ever name one, so that every mark stays where it is."""
ALL_SOURCES = 10**9
"""As `sources`: every number names one. What is left is how two tellings of a text are compared."""

_WAIT: Final = -1
_MEMORY = 40
"""Characters before a mark that can make it an index."""
_OVERLAP = 100
"""Longer than any closing tag that is waited for."""
_LONGEST_RUN = 64
_BLANKS = " \t"
_STOPS = frozenset(".,;:!?)…”’»。，、；：！？）")
"""What stands right behind a word."""
_HEADS = ("#", ">")
"""What begins headings and quotations: without the blank behind it, it may be text."""
_SPECIAL = re.compile(r"[\[<`\\\n]")
_TICKS = re.compile(r"`{1,64}+")
_BLANK_LINE = re.compile(r"\n[ \t>]{0,80}\r?\n")
_MARK = re.compile(r"\[([0-9]{1,3})\]")
_MARK_BEGUN = re.compile(r"\[[0-9]{0,3}\Z")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9_$]{1,40}\Z")
_HEAD = re.compile(
    r"[ \t>]{0,80}+(?:(?P<list>[-*+]|[0-9]{1,9}[.)])(?=[ \t\r\n]|\Z)[ \t]{0,80}+)?"
    r"(?P<fence>`{3,64}+|~{3,64}+)?"
)
_HEAD_BEGUN = re.compile(r"[ \t>]{0,80}(?:[-*+]|[0-9]{1,9}[.)]?)?[ \t]{0,80}(?:`{0,64}|~{0,64})\r?\Z")
_FENCE_END = re.compile(r"[ \t>]{0,80}+(`{3,64}+|~{3,64}+)[ \t]{0,80}+\r?(?=\n|\Z)")
_ALONE = frozenset({"?xml", "response", "/response", "/script"})
"""Tags that go without any content."""
_BLANK = re.compile(r"[ \t>]{0,80}+\r?\n")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_DEFINITION = re.compile(r" {0,3}\[[0-9]{1,3}\]:")
_DEFINITION_BEGUN = re.compile(r" {0,3}\[[0-9]{0,3}\]?\Z")
_TAG = re.compile(
    r"<(\?xml(?=[\s?])|/?response(?=[\s/>])|/?script(?=[\s/>])|grok:[\w.-]{1,64}(?=[\s/>]))", re.IGNORECASE
)
_TAG_BEGUN = re.compile(
    r"<(?:\?(?:x(?:ml?)?)?|g(?:r(?:o(?:k(?::[\w.-]{0,64})?)?)?)?"
    r"|/?(?:r(?:e(?:s(?:p(?:o(?:n(?:se?)?)?)?)?)?)?|s(?:c(?:r(?:i(?:pt?)?)?)?)?)?)\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A removed citation mark: where it stood in the output (code points), and its number."""

    position: int
    number: int
    blanks: int = 0
    """How many went with it, and with marks right before it."""


@dataclass(slots=True)
class Stripper:
    """`sources`: how many are known; it may grow while the text comes."""

    sources: int = 0
    marks: list[Mark] = field(default_factory=list)
    size: int = 0
    """Characters handed out."""
    _tail: str = ""
    """Text that is not decided yet."""
    _memory: str = ""
    """The last decided characters of the input."""
    _out: list[str] = field(default_factory=list)
    _blanks: str = ""
    """Those behind the last thing handed out: they go with a mark that a stop follows."""
    _after_mark: bool = False
    """The last thing read was a mark that is taken out."""
    _bare: bool = True
    """Nothing but blanks and what makes it an entry, a heading or a quotation is in this line yet."""
    _line_start: bool = True
    _verbatim: bool = False
    """The rest of this line is code, or defines a link."""
    _fence: str = ""
    _paragraph: bool = False
    _in_list: bool = False
    _index_end: bool = False
    """The last thing handed out was an index."""
    _patient: bool = True
    _final: bool = False
    _element: _Element | None = None
    _endless: set[str] = field(default_factory=set)
    """Elements whose closing tag does not come any more."""

    def feed(self, text: str) -> str:
        """The text that is now certain. With "" it looks again, as after `sources` has grown."""
        if self._element is not None:
            if not self._element.add(text):
                return ""
            text = self._element.text
            self._element = None
        elif not (self._tail or self._line_start or self._verbatim or _SPECIAL.search(text)):
            self._memory = (self._memory + text)[-_MEMORY:]
            self._emit(text, 0)
            return self._handed_out()
        return self._run(self._tail + text)

    def finish(self) -> str:
        """The rest: nothing more will come."""
        self._final = True
        text = self._element.text if self._element else self._tail
        self._element = None
        rest = self._run(text)
        self._hand_out(self._blanks)
        return rest + self._handed_out()

    def _run(self, text: str) -> str:
        position = 0
        while position < len(text):
            if self._line_start:
                following = self._at_line_start(text, position)
            elif self._verbatim:
                following = self._code_line(text, position)
            else:
                following = self._inline(text, position)
            if following == _WAIT:
                break
            position = following
        self._tail = "" if self._element else text[position:]
        self._memory = (self._memory + text[max(0, position - _MEMORY) : position])[-_MEMORY:]
        return self._handed_out()

    def _handed_out(self) -> str:
        out = "".join(self._out)
        self._out.clear()
        return out

    def _emit(self, text: str, end: int) -> int:
        """`text` is certain, but for the blanks at its end."""
        self._index_end = False
        body = text.rstrip(_BLANKS)
        if body and self._blanks:
            self._settle_blanks(body[0])
        self._after_mark = False
        if (self._bare and not body) or body[-1:] in _HEADS:
            self._hand_out(text)
        else:
            self._hand_out(body)
            self._blanks += text[len(body) :]
            self._bare = False
        return end

    def _settle_blanks(self, following: str) -> None:
        """Whether those that were held back are handed out before `following`, or went with marks."""
        if self._after_mark and following in _STOPS:
            self.marks[-1] = replace(self.marks[-1], blanks=len(self._blanks))
        else:
            self._hand_out(self._blanks)
        self._blanks = ""

    def _hand_out(self, text: str) -> None:
        self._out.append(text)
        self.size += len(text)

    def _wait_or_emit(self, begun: re.Pattern[str], text: str, position: int) -> int:
        """One character as it is, unless what it `begun` could still become something."""
        if not self._final and begun.match(text, position):
            return _WAIT
        return self._emit(text[position], position + 1)

    # Lines: which are code.

    def _at_line_start(self, text: str, position: int) -> int:
        """Says what kind of line begins here; only a blank line is handed out at once."""
        newline = text.find("\n", position)
        open_end = newline < 0 and not self._final
        if open_end and (_HEAD_BEGUN.match(text, position) or _DEFINITION_BEGUN.match(text, position)):
            return _WAIT
        if self._fence:
            return self._fenced_line(text, position, open_end)
        if blank := _BLANK.match(text, position):
            self._paragraph = False
            return self._emit(blank[0], blank.end())
        if not (self._paragraph or self._in_list) and _INDENTED.match(text, position):
            return self._begin_line(position, verbatim=True)
        return self._open_line(text, position, newline if newline >= 0 else len(text), open_end)

    def _open_line(self, text: str, position: int, line_end: int, open_end: bool) -> int:
        """A line of prose, or one that opens a code fence."""
        head = _HEAD.match(text, position)
        fence = head["fence"] if head else None
        if head and fence and _can_follow(fence, text[head.end() : line_end]):
            if open_end:
                return _WAIT
            self._fence, self._paragraph = fence, False
            return self._begin_line(position, verbatim=True)
        if head and head["list"]:
            self._in_list = True
        elif not (self._paragraph or text[position].isspace()):
            self._in_list = False
        self._paragraph = True
        if _DEFINITION.match(text, position):
            return self._begin_line(position, verbatim=True)
        position = self._begin_line(position, verbatim=False)
        if head and head["list"]:
            # Its blanks make it a list: no mark takes them along.
            self._hand_out(head[0])
            return head.end()
        return position

    def _begin_line(self, position: int, *, verbatim: bool) -> int:
        self._line_start, self._verbatim, self._bare = False, verbatim, True
        return position

    def _fenced_line(self, text: str, position: int, open_end: bool) -> int:
        end = _FENCE_END.match(text, position)
        if end and open_end:
            return _WAIT
        if end and end[1][0] == self._fence[0] and len(end[1]) >= len(self._fence):
            self._fence = ""
        return self._begin_line(position, verbatim=True)

    def _code_line(self, text: str, position: int) -> int:
        newline = text.find("\n", position)
        if newline < 0:
            return self._emit(text[position:], len(text))
        self._line_start, self._verbatim = True, False
        return self._emit(text[position : newline + 1], newline + 1)

    # Within a line of prose.

    def _inline(self, text: str, position: int) -> int:
        special = _SPECIAL.search(text, position)
        if special is None:
            return self._emit(text[position:], len(text))
        if special.start() > position:
            return self._emit(text[position : special.start()], special.start())
        return _INLINE[special[0]](self, text, special.start())

    def _line_end(self, text: str, position: int) -> int:
        self._line_start = True
        return self._emit("\n", position + 1)

    def _escape(self, text: str, position: int) -> int:
        if position + 1 == len(text) and not self._final:
            return _WAIT
        end = position + (1 if text.startswith("\n", position + 1) else 2)
        self._emit(text[position:end], end)
        self._hand_out(self._blanks)  # a blank that is escaped is no blank
        self._blanks = ""
        return min(end, len(text))

    def _code_span(self, text: str, position: int) -> int:
        run = _TICKS.match(text, position)
        assert run is not None
        if run.end() == len(text) and len(run[0]) < _LONGEST_RUN and not self._final:
            return _WAIT
        limit = run.end() + LONGEST_SPAN
        blank = _BLANK_LINE.search(text, run.end(), limit)
        stop = blank.start() if blank else limit
        for closer in _TICKS.finditer(text, run.end(), limit + _LONGEST_RUN):
            if closer.start() >= stop:
                break
            if closer.end() == len(text) and len(closer[0]) < _LONGEST_RUN and not self._final:
                return _WAIT
            if len(closer[0]) == len(run[0]):
                return self._emit(text[position : closer.end()], closer.end())
        if not (blank or self._final) and len(text) < limit + _LONGEST_RUN:
            return _WAIT
        return self._emit(run[0], run.end())

    def _bracket(self, text: str, position: int) -> int:
        mark = _MARK.match(text, position)
        if mark is None:
            return self._wait_or_emit(_MARK_BEGUN, text, position)
        if mark.end() == len(text) and not self._final:
            return _WAIT
        is_index = self._index_end or self._is_index(text, position)
        if is_index or mark[1].startswith("0") or text.startswith("(", mark.end()):
            end = self._emit(mark[0], mark.end())
            self._index_end = is_index
            return end
        return self._cited(int(mark[1]), mark[0], text, position)

    def _cited(self, number: int, mark: str, text: str, position: int) -> int:
        end = position + len(mark)
        if number <= self.sources:
            self.marks.append(Mark(self.size, number))
            self._after_mark = True
            return end
        if not self.sources and self._patient and not self._final:
            if len(text) - position <= PATIENCE:
                return _WAIT
            self._patient = False
        return self._emit(mark, end)

    def _is_index(self, text: str, position: int) -> bool:
        before = text[max(0, position - _MEMORY) : position]
        word = _WORD_BEFORE.search((self._memory + before)[-_MEMORY:])
        if word is None:
            return False
        name = word[0]
        return "_" in name or "$" in name or (len(name) == 1 and "a" <= name <= "z")

    def _tag(self, text: str, position: int) -> int:
        tag = _TAG.match(text, position)
        if tag is None:
            return self._wait_or_emit(_TAG_BEGUN, text, position)
        limit = tag.end() + LONGEST_TAG
        end = text.find(">", tag.end(), limit)
        if end < 0 and not self._final and len(text) < limit:
            return _WAIT
        name = tag[1].lower()
        if end < 0 or (name == "?xml" and text[end - 1] != "?"):
            return self._emit("<", position + 1)
        stands_alone = name in _ALONE or (name.startswith("grok") and text[end - 1] == "/")
        return end + 1 if stands_alone else self._drop_element(name, text, position, end + 1)

    def _drop_element(self, name: str, text: str, position: int, inside: int) -> int:
        """Without its closing tag a script loses its opening one, and a grok element is just text."""
        closer = re.compile(rf"</{re.escape(name)}\s{{0,20}}>", re.IGNORECASE)
        found = None if name in self._endless else closer.search(text, inside)
        if found:
            return found.end()
        if not self._final:
            self._element = _Element(closer, text[position:])
            return _WAIT
        self._endless.add(name)
        return inside if name == "script" else self._emit("<", position + 1)


_INLINE: dict[str, Callable[[Stripper, str, int], int]] = {
    "[": Stripper._bracket,
    "<": Stripper._tag,
    "`": Stripper._code_span,
    "\\": Stripper._escape,
    "\n": Stripper._line_end,
}


def _can_follow(fence: str, info: str) -> bool:
    """Whether a code fence can have `info` behind it."""
    return len(info) <= LONGEST_INFO and not (fence[0] == "`" and "`" in info)


@dataclass(slots=True)
class _Element:
    """An element that is open: its text is kept in pieces, and each is searched once."""

    closer: re.Pattern[str]
    first: str
    _pieces: list[str] = field(default_factory=list)
    _edge: str = ""

    def __post_init__(self) -> None:
        self._pieces.append(self.first)
        self._edge = self.first[-_OVERLAP:]

    def add(self, text: str) -> bool:
        """Whether the closing tag is there now."""
        self._pieces.append(text)
        window = self._edge + text
        self._edge = window[-_OVERLAP:]
        return self.closer.search(window) is not None

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def clean(text: str, sources: int) -> tuple[str, tuple[Mark, ...]]:
    """A whole text at once, and the marks that stood in it."""
    stripper = Stripper(sources)
    out = stripper.feed(text) + stripper.finish()
    return out, tuple(stripper.marks)
