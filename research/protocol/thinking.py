"""Sets a model's think-blocks apart from its report (mcp-deep-research §2, perplexity-api §4.1).

A block runs from `<think>` to its `</think>`, across lines. A nested block belongs to its outer
one; where the tags do not balance, the first `</think>` ends the block, so that a thought which
merely names the tag does not take the report with it. A tag that has no partner stays in the text,
as does a tag shown as code: nothing here may delete a report.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass

from portal.wire.blocks import FENCE, after_fence

_TAG = re.compile(r"(?i)</?think>")
_STEP = re.compile(f"(?im)^{FENCE}|<think>")


@dataclass(frozen=True, slots=True)
class Thought:
    """`text` without its think-blocks, and what stood in them, joined by blank lines."""

    text: str
    thinking: str


def split_thinking(text: str) -> Thought:
    """Both halves of `text`. Without a complete think-block `text` comes back unchanged."""
    if not _TAG.search(text):
        return Thought(text, "")
    kept: list[str] = []
    thoughts: list[str] = []
    position = 0
    for start, end in _blocks(text):
        kept.append(text[position:start])
        thoughts.append(text[start + len("<think>") : end - len("</think>")].strip())
        position = end
    kept.append(text[position:])
    return Thought("".join(kept), "\n\n".join(thought for thought in thoughts if thought))


def _blocks(text: str) -> list[tuple[int, int]]:
    """Outermost think-blocks in order, looking at code fences outside of them only."""
    ends = _ends(text)
    blocks: list[tuple[int, int]] = []
    fence = ""
    step = _STEP.search(text)
    while step:
        position = step.end()
        if step["fence"]:
            fence = after_fence(fence, step["fence"], _rest_of_line(text, position))
        elif not fence and step.start() in ends:
            position = ends[step.start()]
            blocks.append((step.start(), position))
        step = _STEP.search(text, position)
    return blocks


def _rest_of_line(text: str, position: int) -> str:
    newline = text.find("\n", position)
    return text[position : newline if newline >= 0 else len(text)]


def _ends(text: str) -> dict[int, int]:
    """Start of every opening tag that has a partner → end of the block it opens."""
    opened: list[int] = []
    closers: list[int] = []
    ends: dict[int, int] = {}
    for tag in _TAG.finditer(text):
        quoted_before = text[tag.start() - 1 : tag.start()] == "`"
        if tag[0][1] != "/":
            if not quoted_before:
                opened.append(tag.start())
        elif not (quoted_before and text[tag.end() : tag.end() + 1] == "`"):
            closers.append(tag.end())
            if opened:
                ends[opened.pop()] = tag.end()
    for start in opened:
        following = bisect(closers, start)
        if following < len(closers):
            ends[start] = closers[following]
    return ends
