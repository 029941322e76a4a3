"""Deltas as the upstream tells them → deltas for readers: cleaned, completed, with citations.

What was sent must be how the answer ends, or the answer has failed. Two tellings are the same when
they are so without their citation marks, since the last telling may renumber them
(perplexity-web §7, proxy-contract §17.20).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from proxy.protocol.citing import check, locate
from proxy.protocol.cleaning import ALL_SOURCES, NO_SOURCE, Mark, Stripper, clean
from proxy.protocol.delta import Delta, Done, Fault, FaultKind, Source, SourceFound, Text

MANY = 32
"""Pieces of text that are joined to one."""


@dataclass(slots=True)
class Finisher:
    """Cleans one answer. `content` is what was handed on as text so far.

    `told` was handed on before by somebody who is gone: it is passed over when the upstream tells the
    answer from its beginning. Where that reads otherwise, nothing more is handed on before the end.
    With `keeps_marks` citation marks are part of the text, and `Done.sources` are in their order.
    """

    told: str = ""
    keeps_marks: bool = False
    _stripper: Stripper = field(default_factory=Stripper)
    _pieces: list[str] = field(default_factory=list)
    _joined: int = 0
    """Of the pieces, those that are many of before: pieces of a few characters take thrice their memory."""
    _again: str | None = None
    """What was told again while that is less than `told`, or another text; None in step."""

    def __post_init__(self) -> None:
        if self.told:
            self._pieces.append(self.told)
            self._again = ""
        if self.keeps_marks:
            self._stripper.sources = NO_SOURCE

    @property
    def content(self) -> str:
        return "".join(self._pieces)

    def pass_on(self, deltas: list[Delta]) -> list[Delta]:
        """The deltas, cleaned. Text may be held back, and come with a later one."""
        out: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, Text):
                self._text(self._stripper.feed(delta.text), out)
            elif isinstance(delta, SourceFound):
                out.append(delta)
                if delta.total > self._stripper.sources and not self.keeps_marks:
                    self._stripper.sources = delta.total
                    self._text(self._stripper.feed(""), out)
            elif isinstance(delta, Done):
                self._done(delta, out)
            else:
                out.append(delta)
        return out

    def _text(self, text: str, out: list[Delta]) -> None:
        if self._again is not None:
            text = self._catch_up(self._again + text)
        if text:
            self._pieces.append(text)
            if len(self._pieces) - self._joined >= MANY:
                self._pieces[self._joined :] = ["".join(self._pieces[self._joined :])]
                self._joined += 1
            out.append(Text(text))

    def _catch_up(self, again: str) -> str:
        """What of it is new. The blanks before an answer are nobody's business."""
        again, told = again.lstrip(), self.told.lstrip()
        if not again.startswith(told):
            self._again = again
            return ""
        self._again = None
        return again[len(told) :]

    def _done(self, done: Done, out: list[Delta]) -> None:
        if not self.keeps_marks:
            self._stripper.sources = max(self._stripper.sources, len(done.sources))
        self._text(self._stripper.finish(), out)
        final, marks = self._last_telling(done)
        ending = _Ending.of(self.content, final, marks, done, keeps_marks=self.keeps_marks)
        if ending is None:
            out.append(Fault(FaultKind.REWRITTEN))
            return
        self._again = None
        self._text(ending.rest, out)
        if not self.content.strip():
            out.append(Fault(FaultKind.EMPTY))
            return
        citations = locate(self.content, ending.marks, done.sources)
        _, counted = clean(self.content if self.keeps_marks else done.answer, ALL_SOURCES)
        checks = check(counted, ending.sources)
        out.append(replace(done, citations=citations, sources=ending.sources, checks=checks))

    def _last_telling(self, done: Done) -> tuple[str, tuple[Mark, ...]]:
        """The answer as the upstream ends it, and where its marks stand, or stood."""
        if not self.keeps_marks:
            return clean(done.answer, len(done.sources))
        _, marks = clean(done.answer, ALL_SOURCES)
        return clean(done.answer, NO_SOURCE)[0], _moved(marks, marks, 0)


@dataclass(frozen=True, slots=True)
class _Ending:
    """What is still to be sent, and where the marks of the last telling stand in all that was sent."""

    rest: str
    marks: tuple[Mark, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(
        cls, sent: str, final: str, marks: tuple[Mark, ...], done: Done, *, keeps_marks: bool
    ) -> _Ending | None:
        """None when the last telling, `final`, is another text than what was `sent`."""
        if final.startswith(sent):
            return cls(final[len(sent) :], marks, done.sources)
        # Some mark was sent before its source was known, or the ends differ by blanks.
        bare_sent, sent_marks = clean(sent, ALL_SOURCES)
        bare_final, final_marks = clean(done.answer, ALL_SOURCES)
        lead = len(bare_final) - len(bare_final.lstrip())
        shift = len(bare_sent) - len(bare_sent.lstrip()) - lead
        bare_final = bare_final[lead:]
        if bare_final.startswith(bare_sent.lstrip()):
            rest = bare_final[len(bare_sent.lstrip()) :]
        elif bare_final.rstrip() == bare_sent.strip():
            rest = ""
        else:
            return None
        sources = _as_counted(done.sources, sent_marks, final_marks) if keeps_marks else done.sources
        return cls(rest, _moved(final_marks, sent_marks, shift), sources)


def _as_counted(
    sources: tuple[Source, ...], sent: tuple[Mark, ...], final: tuple[Mark, ...]
) -> tuple[Source, ...]:
    """`sources` as the marks that were `sent` count them, though the last telling numbers anew."""
    last = len(sources)
    meant: dict[int, int] = {}
    for was, now in zip(sent, final, strict=False):
        if was.number <= last and now.number <= last:
            meant.setdefault(was.number, now.number)
    others = [number for number in range(1, last + 1) if number not in meant.values()]
    places: list[int] = []
    while meant or others:
        mine = meant.pop(len(places) + 1, None)
        places.append(others.pop(0) if mine is None else mine)
    return tuple(sources[number - 1] for number in places)


def _moved(marks: tuple[Mark, ...], left: tuple[Mark, ...], shift: int) -> tuple[Mark, ...]:
    """`marks` of the bare text, moved by the marks that are `left` in the text that was sent."""
    moved: list[Mark] = []
    extra = 0
    following = 0
    for mark in marks:
        position = max(mark.position + shift, 0)
        while following < len(left) and left[following].position < position:
            extra += len(f"[{left[following].number}]") + left[following].blanks
            following += 1
        moved.append(Mark(position + extra, mark.number))
    return tuple(moved)
