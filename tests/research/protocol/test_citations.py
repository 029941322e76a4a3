from __future__ import annotations

import pytest
from hypothesis import given

from portal.wire.links import find_links
from research.protocol.citations import Citations, find_citations
from tests.research.protocol.texts import markdown


def cited(text: str) -> Citations:
    return find_citations(text, find_links(text))


def marks(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(mark.text, mark.numbers) for mark in cited(text).marks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x [1].", [("[1]", (1,))]),
        ("word[1][2]", [("[1]", (1,)), ("[2]", (2,))]),
        ("x [1,2]", [("[1,2]", (1, 2))]),
        ("x [1, 2; 4]", [("[1, 2; 4]", (1, 2, 4))]),
        ("x [1-3]", [("[1-3]", (1, 2, 3))]),
        ("x [1–3, 7]", [("[1–3, 7]", (1, 2, 3, 7))]),
        ("x [2, 2]", [("[2, 2]", (2,))]),
        ("x [ 3 ]", [("[ 3 ]", (3,))]),
        ("x [0]", [("[0]", (0,))]),
        ("x [14]", [("[14]", (14,))]),
        ("x [web:0]", [("[web:0]", (0,))]),
        ("x [web:1, web:2]", [("[web:1, web:2]", (1, 2))]),
        ("x [^3]", [("[^3]", (3,))]),
        ("**[1]**", [("[1]", (1,))]),
        ("| a | [1] |", [("[1]", (1,))]),
        ("- [1] first", [("[1]", (1,))]),
        ("电池[1]。", [("[1]", (1,))]),
        ("https://e.com/x[1]", [("[1]", (1,))]),
        ("Vitamin C[1], Node.js[2], 2027[3], OpenAI[4]", [(f"[{n}]", (n,)) for n in (1, 2, 3, 4)]),
    ],
)
def test_it_reads_marks_as_upstreams_write_them(
    text: str, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert marks(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "`x[1]` and `[2]`",
        "```\n[1]\n```",
        "    [1]",
        "[1](https://e.com)",
        "[see [1] here](https://e.com)",
        "[[1]](https://e.com)",
        "![fig [1]](https://e.com/i.png)",
        "[x](https://e.com/[1])",
        "<https://e.com/[1]>",
        "https://e.com/?a[1]=2",
        r"\[1]",
        "[2024]",
        "[01]",
        "[-1]",
        "[1.5]",
        "[1-]",
        "[3-1]",
        "[1-3-5]",
        "[1-999]",
        "[]",
        "[ ]",
        "[x]",
        "[1a]",
        "[a1]",
        "a[1]",
        "x_i[2]",
        "row_ids[0]",
        "items[0]",
        "$v[1]",
        "a[1][2]",
        "[1\n]",
        "[１]",
        "[1, 2",
        "bicyclo[2.2.1]",
    ],
)
def test_it_takes_nothing_else_for_a_mark(text: str) -> None:
    assert marks(text) == []


def test_it_counts_a_zero_that_stands_alone() -> None:
    assert marks("interval [0, 1] and [0]") == [("[0, 1]", (0, 1)), ("[0]", (0,))]


@pytest.mark.parametrize(
    ("entry", "number"),
    [
        ("[1] A title, https://e.com/x.", 1),
        ("- [2] [A title](https://e.com/x)", 2),
        ("3. [3]: <https://e.com/x>", 3),
        ("**[4]** https://e.com/x", 4),
        ("> [5] https://e.com/x", 5),
        ("[6]: https://e.com/x", 6),
        ('[7]: https://e.com/x "Title"', 7),
        ("[^8]: https://e.com/x", 8),
        ("[^9]: Author, https://e.com/x", 9),
    ],
)
def test_it_reads_the_reports_own_list_of_references(entry: str, number: int) -> None:
    found = cited(f"Claim [{number}].\n\n## Sources\n\n{entry}\n")
    assert found.legend == {number: ("https://e.com/x",)}
    assert [mark.text for mark in found.marks] == [f"[{number}]"]
    assert found.marks[0].start < 10


def test_it_keeps_both_meanings_of_a_number_that_is_listed_twice() -> None:
    found = cited("[1] https://e.com/a\n\n[1] https://e.com/b\n")
    assert found.legend == {1: ("https://e.com/a", "https://e.com/b")}


def test_it_leaves_a_mark_that_begins_a_line_without_a_link_a_mark() -> None:
    assert marks("[1] says so.\n[2] agrees: https://e.com") == [("[1]", (1,))]


def test_it_takes_a_footnote_with_a_remark_for_no_citation() -> None:
    assert marks("a[^1] b[^2]\n\n[^1]: only a remark\n[^2]: https://e.com") == [("[^2]", (2,))]


@given(markdown)
def test_it_keeps_marks_inside_the_text_apart_and_in_order(text: str) -> None:
    end = 0
    for mark in cited(text).marks:
        assert end <= mark.start < mark.end <= len(text)
        assert text[mark.start : mark.end] == mark.text
        assert mark.numbers
        end = mark.end


@given(markdown)
def test_it_finds_no_mark_inside_a_link(text: str) -> None:
    inline = find_links(text)
    spans = [(link.start, link.end) for link in inline.links]
    for mark in find_citations(text, inline).marks:
        assert not any(start <= mark.start < end for start, end in spans)
