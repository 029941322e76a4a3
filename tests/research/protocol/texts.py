"""Markdown made of the pieces that matter here, in every order."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = (
    "word ", "a", " ", "\n", "\n\n", "[1]", "[0]", "[14]", "[1,2]", "[2-4]", "[web:0]", "[^1]", "[", "]", "(",
    ")", "`", "``", "```\n", "~~~\n", "    ", "> ", "- ", "1. ", "# ", "|", "\\", "!", "<", ">", "*", "_",
    "https://example.com/a", "HTTP://Example.com", "https://", "[text](https://example.com/b)", "](", '"t"',
    "\n[1]: https://example.com/c\n", "\n[2] A title, https://example.com/d\n", "[text][1]",
    "<https://a.de>", "&amp;", "。", "<think>", "</think>", "é", "\u2028", "\r\n", "\t", "::", "...",
)  # fmt: skip
markdown = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join)
