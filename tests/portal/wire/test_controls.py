from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.wire.controls import in_lines, in_one_line


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        ("plain, für alle, 你好, می\u200cخواهم 🦊", None, None),
        ("a\nb\tc", "a\\nb\\tc", "a\nb\tc"),
        ("a\r\nb", "a\\r\\nb", "a\\r\nb"),
        ("\x1b[2J\x07\x00", "\\x1b[2J\\x07\\x00", "\\x1b[2J\\x07\\x00"),
        ("\x9b\u2028", "\\x9b\\u2028", "\\x9b\\u2028"),
    ],
)
def test_it_writes_out_what_does_something(text: str, line: str | None, lines: str | None) -> None:
    assert in_one_line(text) == (text if line is None else line)
    assert in_lines(text) == (text if lines is None else lines)


@given(st.text())
def test_it_leaves_nothing_that_ends_a_line(text: str) -> None:
    assert len(in_one_line(text).splitlines()) <= 1
