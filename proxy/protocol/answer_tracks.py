"""Which of the parallel tellings of the answer is followed, and which has the last word.

Text is taken from one shape only, the first that brings some: blocks, workflow or steps. Within the
blocks one track is followed while it is there: `ask_text` first, else the one that came first; they
tell the same text, so a change of track goes on at the same index (perplexity-web §7).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from proxy.protocol.answer_text import AnswerText
from proxy.protocol.documents import Block
from proxy.protocol.tolerant import items_of, text_of, whole_of
from proxy.protocol.web_frame import PieceBlock

Shape = Literal["blocks", "workflow", "steps"]
B = TypeVar("B", Block, PieceBlock)

MARKDOWN = "markdown_block"
_TRACK = re.compile(r"ask_text(?:_\d{1,4}_markdown)?")
_PREFERRED = "ask_text"


@dataclass(slots=True)
class AnswerTracks:
    text: AnswerText = field(default_factory=AnswerText)
    _shape: Shape | None = None
    _track: str = _PREFERRED
    _last_words: dict[Shape, str] = field(default_factory=dict)
    _workflow: dict[str, object] = field(default_factory=dict)
    _document: list[object] = field(default_factory=list)
    """All chunks, where patches build them up."""

    def read_blocks(self, blocks: list[Block]) -> str:
        """What the markdown blocks of one frame add."""
        block = self._followed([block for block in blocks if block.field == MARKDOWN])
        return self._markdown(block) if block else ""

    def read_pieces(self, blocks: list[PieceBlock]) -> str:
        """The same of blocks that are pieces of the answer, and nothing else."""
        block = self._followed(blocks)
        if block is None or not self._may_follow("blocks"):
            return ""
        piece = block.piece
        return self._follow("blocks", self.text.place(piece.chunk_starting_offset, piece.chunks))

    def _followed(self, blocks: list[B]) -> B | None:
        """The block of the track that is followed."""
        tracks: dict[str, B] = {}
        for block in blocks:
            if block.usage == self._track or _TRACK.fullmatch(block.usage):
                tracks[block.usage] = block
        if not tracks:
            return None
        if self._track not in tracks:
            self._track = _PREFERRED if _PREFERRED in tracks else next(iter(tracks))
        return tracks[self._track]

    def read_workflow(self, payload: dict[str, object]) -> str:
        """What the answer item of the workflow adds."""
        self._workflow = payload
        if not self._may_follow("workflow"):
            return ""
        whole = text_of(payload.get("text"))
        chunks = items_of(payload.get("chunks"))
        if self.text.count or (not self.text.size and _size(chunks) > len(whole)):
            start = max(self.text.count - 1, 0)
            return self._follow("workflow", self.text.place(start, map(text_of, chunks[start:])))
        return self._follow("workflow", self.text.grow(whole)) if whole else ""

    def read_final(self, answer: str | None) -> str:
        """What the FINAL step adds, which is sent whole each time; None without such a step."""
        if answer is None:
            return ""
        self._last_words["steps"] = answer
        if not self._may_follow("steps"):
            return ""
        return self._follow("steps", self.text.grow(answer))

    def is_broken(self, lost: set[tuple[str, str]]) -> bool:
        """Whether part of the answer never came: a hole, or a patch that did not fit."""
        if self._shape == "workflow":
            return any(name == "workflow_block" for _, name in lost)
        if self._shape is None or self._last_word(self._shape) is not None:
            return False
        return self.text.has_hole or (self._track, MARKDOWN) in lost

    @property
    def taken_back(self) -> bool:
        """Whether an empty answer is one that was not empty before."""
        return self.text.size > 0 and (self.text.corrected or bool(self.text.text.strip()))

    @property
    def answer(self) -> str:
        """The whole answer: the last word of the followed shape, else what was told, else another's."""
        rebuilt = self._shape == "blocks" and self.text.corrected and self._document
        streamed = "".join(map(text_of, self._document)) if rebuilt else self.text.text
        if self._shape and (word := self._last_word(self._shape)) is not None:
            return word
        shapes: tuple[Shape, ...] = ("blocks", "steps", "workflow")
        words = (self._last_word(shape) for shape in shapes)
        return next((word for word in words if word and word.startswith(streamed)), streamed)

    def _last_word(self, shape: Shape) -> str | None:
        """None: it has not spoken. "" takes back whatever was told."""
        if shape != "workflow":
            return self._last_words.get(shape)
        if not self._workflow:
            return None
        whole = text_of(self._workflow.get("text"))
        joined = "".join(map(text_of, items_of(self._workflow.get("chunks"))))
        ended = self._workflow.get("is_streaming") is False
        return whole if (whole and ended) or len(whole) >= len(joined) else joined

    def _may_follow(self, shape: Shape) -> bool:
        return self._shape is None or self._shape == shape

    def _follow(self, shape: Shape, new: str) -> str:
        if new:
            self._shape = shape
        return new

    def _markdown(self, block: Block) -> str:
        value = block.value
        chunks = items_of(value.get("chunks"))
        offset = whole_of(value.get("chunk_starting_offset"))
        if value.get("progress") == "DONE":
            # The snapshot may cut its chunks elsewhere: it is compared as a text, not by index.
            answer = value.get("answer")
            whole = text_of(answer) or ("" if offset else "".join(map(text_of, chunks)))
            if whole or isinstance(answer, str):
                self._last_words["blocks"] = whole
            return ""
        if not self._may_follow("blocks"):
            return ""
        if not (chunks or self.text.count) and (answer := text_of(value.get("answer"))):
            return self._follow("blocks", self.text.grow(answer))
        if block.kept:
            return self._follow("blocks", self._patched(block, offset or 0, chunks))
        return self._follow("blocks", self.text.place(offset, map(text_of, chunks)))

    def _patched(self, block: Block, base: int, chunks: list[object]) -> str:
        self._document = chunks if base == 0 else []
        self.text.cut(base + len(chunks))
        new = [self.text.place(base + index, [text_of(chunk)]) for index, chunk in block.fresh("chunks")]
        following = max(self.text.count - base, 0)
        new.append(self.text.place(base + following, map(text_of, chunks[following:])))
        return "".join(new)


def _size(chunks: list[object]) -> int:
    return sum(len(text_of(chunk)) for chunk in chunks)
