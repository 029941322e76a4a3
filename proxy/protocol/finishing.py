"""Deltas as the upstream tells them → deltas for readers: cleaned, completed, with citations.

What was sent must be how the answer ends, or the answer has failed. Two tellings are the same when
they are so without their citation marks, since the last telling may renumber them
(perplexity-web §7, proxy-contract §17.20).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from proxy.protocol.citing import locate
from proxy.protocol.cleaning import ALL_SOURCES, Mark, Stripper, clean
from proxy.protocol.delta import Delta, Done, Fault, FaultKind, SourceFound, Text


@dataclass(slots=True)
class Finisher:
    """Cleans one answer. `content` is what was handed on as text so far.

    `told` was handed on before by somebody who is gone: it is passed over when the upstream tells the
    answer from its beginning. Where that reads otherwise, nothing more is handed on before the end.
    """

    told: str = ""
    _stripper: Stripper = field(default_factory=Stripper)
    _pieces: list[str] = field(default_factory=list)
    _again: str | None = None
    """What was told again while that is less than `told`, or another text; None in step."""

    def __post_init__(self) -> None:
        if self.told:
            self._pieces.append(self.told)
            self._again = ""

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
                if delta.total > self._stripper.sources:
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
            out.append(Text(text))

    def _catch_up(self, again: str) -> str:
        """What of it is new. The blanks before an answer are nobody's business."""
        if not again.lstrip().startswith(self.told):
            self._again = again
            return ""
        self._again = None
        return again.lstrip()[len(self.told) :]

    def _done(self, done: Done, out: list[Delta]) -> None:
        self._stripper.sources = max(self._stripper.sources, len(done.sources))
        self._text(self._stripper.finish(), out)
        sent = self.content
        final, marks = clean(done.answer, len(done.sources))
        ending = _Ending.of(sent, final, marks, done)
        if ending is None:
            out.append(Fault(FaultKind.REWRITTEN))
            return
        self._again = None
        self._text(ending.rest, out)
        if not self.content.strip():
            out.append(Fault(FaultKind.EMPTY))
            return
        out.append(replace(done, citations=locate(self.content, ending.marks, done.sources)))


@dataclass(frozen=True, slots=True)
class _Ending:
    """What is still to be sent, and where the marks of the last telling stand in all that was sent."""

    rest: str
    marks: tuple[Mark, ...]

    @classmethod
    def of(cls, sent: str, final: str, marks: tuple[Mark, ...], done: Done) -> _Ending | None:
        """None when the last telling, `final`, is another text than what was `sent`."""
        if final.startswith(sent):
            return cls(final[len(sent) :], marks)
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
        return cls(rest, _moved(final_marks, sent_marks, shift))


def _moved(marks: tuple[Mark, ...], left: tuple[Mark, ...], shift: int) -> tuple[Mark, ...]:
    """`marks` of the bare text, moved by the marks that are `left` in the text that was sent."""
    moved: list[Mark] = []
    extra = 0
    following = 0
    for mark in marks:
        position = max(mark.position + shift, 0)
        while following < len(left) and left[following].position < position:
            extra += len(f"[{left[following].number}]")
            following += 1
        moved.append(Mark(position + extra, mark.number))
    return tuple(moved)
