from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.mcp_pages import PAGE_SIZE, pages_of

TEXTS = st.lists(
    st.sampled_from(["\n", "\n\n", "# Heading\n", "## Part\n", "word ", "word", "é", "\r\n", "```\n", "長"])
).map("".join)


@given(TEXTS, st.integers(1, 40))
def test_it_loses_and_adds_nothing(text: str, size: int) -> None:
    pages = pages_of(text, size)
    assert "".join(pages) == text
    assert all(len(page) <= size for page in pages)
    assert all(pages[1:])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaa bbbb\n\ncc\n## Next\ndddd", "aaaa bbbb\n\ncc\n"),
        ("aaaa bbbb\n\ncc dd ee ff gg hh", "aaaa bbbb\n\n"),
        ("aaaa bbbb cc\ndd ee ff gg hh ii", "aaaa bbbb cc\n"),
        ("aaaa bbbb cc dd ee ff gg hh ii", "aaaa bbbb cc dd "),
        ("a" * 30, "a" * 16),
    ],
)
def test_it_ends_a_page_at_the_best_place_there_is(text: str, first: str) -> None:
    assert pages_of(text, 16)[0] == first


def test_it_gives_an_empty_report_one_page() -> None:
    assert pages_of("") == [""]


def test_it_pages_a_book() -> None:
    text = "".join(f"## Part {number}\n\n{'Some words. ' * 200}\n\n" for number in range(100))
    pages = pages_of(text)
    assert "".join(pages) == text
    assert all(page.startswith("## Part") for page in pages)
    assert len(pages) < len(text) / PAGE_SIZE * 2
