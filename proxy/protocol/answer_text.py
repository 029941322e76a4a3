"""The answer as it grows: pieces placed by their index, or a text that is sent whole each time.

Text that was handed on cannot be taken back. A later change to it is remembered (`corrected`) and
judged at the end, against the upstream's own last word (proxy.protocol.finishing).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class AnswerText:
    """`size`: characters handed on so far. Every method returns the text that became new, in order."""

    size: int = 0
    corrected: bool = False
    _chunks: list[str] = field(default_factory=list)
    _early: dict[int, str] = field(default_factory=dict)
    """Chunks that came before their predecessors."""
    _whole: str | None = None
    """The last whole text, when the answer comes that way."""

    @property
    def text(self) -> str:
        return self._whole if self._whole is not None else "".join(self._chunks)

    @property
    def count(self) -> int:
        return len(self._chunks)

    @property
    def has_hole(self) -> bool:
        return bool(self._early)

    def place(self, offset: int | None, chunks: Iterable[str]) -> str:
        """Chunks from index `offset` on; None puts them at the end."""
        new: list[str] = []
        placed = self._chunks
        for index, chunk in enumerate(chunks, self.count if offset is None else offset):
            if index == len(placed):
                new.append(chunk)
                placed.append(chunk)
            elif index > len(placed):
                self._early[index] = chunk
            elif chunk != placed[index]:
                new.append(self._change(index, chunk))
        while self._early and self.count in self._early:
            new.append(self._early[self.count])
            self._chunks.append(self._early.pop(self.count))
        return self._handed("".join(new))

    def cut(self, count: int) -> None:
        """Only the first `count` chunks are still part of the answer."""
        if 0 <= count < self.count:
            del self._chunks[count:]
            self.corrected = True

    def grow(self, whole: str) -> str:
        """The answer so far, whole: what it adds to the last one is new."""
        before = self._whole or ""
        self._whole = whole
        if whole.startswith(before):
            return self._handed(whole[len(before) :])
        self.corrected = True
        return ""

    def _change(self, index: int, chunk: str) -> str:
        before = self._chunks[index]
        self._chunks[index] = chunk
        if index == self.count - 1 and chunk.startswith(before):
            return chunk[len(before) :]
        self.corrected = True
        return ""

    def _handed(self, text: str) -> str:
        self.size += len(text)
        return text
