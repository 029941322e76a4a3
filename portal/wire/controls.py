"""Characters that do something instead of being seen: they end lines, move cursors, command terminals."""

from __future__ import annotations

import re

_ALL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ALL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def in_one_line(text: str) -> str:
    """`text` with every such character written out: a line end as \\n."""
    return _ALL.sub(_written_out, text)


def in_lines(text: str) -> str:
    """The same, with its lines and tabs as they are."""
    return _ALL_BUT_LINES.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
