from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.cleaning import ALL_SOURCES, LONGEST_SPAN, PATIENCE, Mark, Stripper, clean
from tests.examples import examples
from tests.tables import of_each

CONTRACT: dict[str, tuple[str, str]] = {
    "marks": ("Rust 1.0 shipped in 2015[1][3].", "Rust 1.0 shipped in 2015."),
    "indexes and unknown numbers stay": ("See arr[0] and [12].", "See arr[0] and [12]."),
    "other brackets": ("[note] and [1a] stay", "[note] and [1a] stay"),
    "declaration and response tags": ('<?xml version="1.0"?><response>Hi</response>', "Hi"),
    "a grok element": ('A<grok:render type="x">hidden</grok:render>B', "AB"),
    "a grok tag alone": ("A<grok:x/>B", "AB"),
    "a script": ("x<script>bad()</script>y", "xy"),
    "a stray script tag": ("x</script>y", "xy"),
    "only whole tag names": ("<responsetime>5</responsetime>", "<responsetime>5</responsetime>"),
}
OURS: dict[str, tuple[str, str]] = {
    "a number that no source has": ("So[4], so[3].", "So[4], so."),
    "zero and leading zeros": ("So[0], so[01].", "So[0], so[01]."),
    "years": ("In [2024].", "In [2024]."),
    "links": ("[1](https://x.example) and [2] (see)", "[1](https://x.example) and  (see)"),
    "definitions": ("[1]: https://x.example\n[2] x", "[1]: https://x.example\n x"),
    "escapes": (r"\[1] and \\[1]", r"\[1] and \\"),
    "formulas": (r"\[1\]", r"\[1\]"),
    "index of a small letter": ("x[1] = X[1]", "x[1] = X"),
    "index of a name": ("row_ids[2], $cells[1]", "row_ids[2], $cells[1]"),
    "index of an index": ("a[1][2] b", "a[1][2] b"),
    "a mark behind a word": ("word[1]", "word"),
    "a code span": ("so `x[1]<script>` it[1]", "so `x[1]<script>` it"),
    "a code span with ticks": ("``a ` b[1]`` word[1]", "``a ` b[1]`` word"),
    "a code span over a line end": ("`a\nword[1]` word[1]", "`a\nword[1]` word"),
    "a tick without a partner": ("a ` word[1]", "a ` word"),
    "ticks in two paragraphs": ("a ` word[1]\n\na ` word[1]", "a ` word\n\na ` word"),
    "a fence": ("```py\nword[1]\n```\nword[1]", "```py\nword[1]\n```\nword"),
    "a fence of tildes": ("~~~ a`b\nword[1]\n```\n~~~\nword[1]", "~~~ a`b\nword[1]\n```\n~~~\nword"),
    "a fence that stays open": ("```\nword[1]\n\nword[1]", "```\nword[1]\n\nword[1]"),
    "a fence with blanks behind it": ("```  \nword[1]\n```  \nword[1]", "```  \nword[1]\n```  \nword"),
    "what only looks like a fence's end": ("```\nword[1]\n``` x\nword[1]", "```\nword[1]\n``` x\nword[1]"),
    "a longer fence": ("````\n```\nword[1]\n````\nword[1]", "````\n```\nword[1]\n````\nword"),
    "a fence in a list": ("- a\n  ```\n  word[1]\n  ```\n  word[1]", "- a\n  ```\n  word[1]\n  ```\n  word"),
    "a fence in a quotation": ("> ```\n> word[1]\n> ```\n> word[1]", "> ```\n> word[1]\n> ```\n> word"),
    "three ticks in a line": ("a ``` word[1] ``` word[1]", "a ``` word[1] ``` word"),
    "indented code": ("a\n\n    word[1]\n\nword[1]", "a\n\n    word[1]\n\nword"),
    "indented text of a list": ("- a\n\n    word[1]", "- a\n\n    word"),
    "an indented line of a paragraph": ("a\n    word[1]", "a\n    word"),
    "a table": ("| [1] | a[1] |\n|---|---|\n| [9] | word[1] |", "|  | a[1] |\n|---|---|\n| [9] | word |"),
    "blanks": ("  a [1] b\t\n\n  c ", "  a  b\t\n\n  c "),
    "a blank before a mark at a stop": ("so [1]. And [2], or [3]; (it [1]) [2]!", "so. And, or; (it)!"),
    "blanks before marks at a stop": ("so \t[1] [2][3]. No", "so. No"),
    "a blank before a mark that stays": ("so [1] [4]. a[1] [2].", "so  [4]. a[1]."),
    "a blank of its own before a stop": ("so [1] . And . [1]", "so  . And . "),
    "a blank before a mark in code": ("`so [1].` it [1].\n\n    so [1].", "`so [1].` it.\n\n    so [1]."),
    "a blank behind what makes a line": (
        "- [1]. a\n1. [1]. b\n# [1]. c\n> [1]. d\n  [1]. e",
        "- . a\n1. . b\n# . c\n> . d\n  . e",
    ),
    "a blank that is escaped": ("so\\ [1].", "so\\ ."),
    "a blank at a line's end": ("so [1]\n[2] so [3]  \nso", "so \n so   \nso"),
    "a blank before a wide stop": ("潮 [1]。満 [2]、", "潮。満、"),
    "nested grok": ('a<grok:r n="1"><argument>2</argument></grok:r>b', "ab"),
    "a grok element without an end": ("a <grok:x>word[1]", "a <grok:x>word"),
    "a grok tag without an end": ("a <grok:x b", "a <grok:x b"),
    "a script without an end": ("a<script>word[1]", "aword"),
    "a script with attributes": ('a<SCRIPT type="x">b</Script >c', "ac"),
    "other tags": ("<scripted> <b>x</b> <grok> </grok:x>", "<scripted> <b>x</b> <grok> </grok:x>"),
    "comparisons": ("a < b, a <= c, 1<2", "a < b, a <= c, 1<2"),
    "a response tag with attributes": ('<response lang="en">x</response >', "x"),
    "an open bracket at the end": ("so [1", "so [1"),
    "a mark at the end": ("so[1]", "so"),
    "windows line ends": ("```\r\nword[1]\r\n```\r\nword[1]\r\n", "```\r\nword[1]\r\n```\r\nword\r\n"),
    "other scripts": ("潮が満ちる[1]。Ебь[2] 🌊[3]", "潮が満ちる。Ебь 🌊"),
}
table = of_each(CONTRACT | OURS)


@table
def test_it_cleans(text: str, cleaned: str) -> None:
    assert clean(text, 3)[0] == cleaned


@table
def test_it_cleans_the_same_however_the_text_is_cut_in_two(text: str, cleaned: str) -> None:
    for at in range(len(text) + 1):
        stripper = Stripper(3)
        assert stripper.feed(text[:at]) + stripper.feed(text[at:]) + stripper.finish() == cleaned


@table
def test_it_cleans_the_same_character_by_character(text: str, cleaned: str) -> None:
    stripper = Stripper(3)

    assert "".join(map(stripper.feed, text)) + stripper.finish() == cleaned
    assert tuple(stripper.marks) == clean(text, 3)[1]


PIECES = [
    *("[", "]", "[1]", "[2]", "1", "0", "`", "``", "```", "~~~", "~", "(", ":", "\\", "a", "_", "word", "潮"),
    *(
        "<",
        "<script",
        ">",
        "</script>",
        "<grok:a>",
        "</grok:a>",
        "<grok:a/>",
        "<response>",
        "<?xml",
        "?>",
        "/>",
    ),
    *("-", "1.", " ", " ", "    ", "\t", "\n", "\n\n", "\r\n", ".", ",", "#", " [1]."),
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@examples(1000)
@given(texts, st.lists(st.integers(0, 200), max_size=5), st.sampled_from([0, 1, 5, ALL_SOURCES]))
def test_it_cleans_any_text_the_same_in_any_pieces(text: str, cuts: list[int], sources: int) -> None:
    edges = [0, *sorted(cuts), len(text)]
    stripper = Stripper(sources)

    out = "".join(stripper.feed(text[start:end]) for start, end in itertools.pairwise(edges))

    assert (out + stripper.finish(), tuple(stripper.marks)) == clean(text, sources)


@examples(500)
@given(texts)
def test_it_only_takes_away(text: str) -> None:
    rest = iter(text)

    assert all(character in rest for character in clean(text, 5)[0])


@examples(300)
@given(st.text(alphabet="ab \n潮.,*#|", max_size=200), st.integers(0, 9))
def test_it_leaves_text_without_markup_alone(text: str, sources: int) -> None:
    assert clean(text, sources) == (text, ())


@given(texts)
def test_it_knows_its_own_size(text: str) -> None:
    stripper = Stripper(2)

    out = stripper.feed(text) + stripper.finish()

    assert stripper.size == len(out)


def test_it_says_where_the_marks_stood() -> None:
    assert clean("One[1][2] two [3].", 3)[1] == (
        Mark(3, 1),
        Mark(3, 2),
        Mark(7, 3, blanks=1),
    )
    assert clean("One [1] [2]. Two [3] three", 3)[1] == (Mark(3, 1), Mark(3, 2, blanks=2), Mark(8, 3))


def test_it_hands_plain_text_on_at_once_but_for_blanks_at_its_end() -> None:
    stripper = Stripper(3)

    assert [stripper.feed(piece) for piece in ("High tide", " is at ", "06:40")] == [
        "High tide",
        " is at",
        " 06:40",
    ]


@pytest.mark.parametrize("tail", ["[", "[1", "[12]", "<", "</scr", "<grok:re", "`", "\\", "`code", "<script"])
def test_it_holds_back_only_what_could_still_change(tail: str) -> None:
    stripper = Stripper(30)

    assert stripper.feed(f"some words {tail}") == "some words"


def test_it_holds_an_open_element_back_until_it_closes() -> None:
    stripper = Stripper()

    assert stripper.feed("a<script>") == "a"
    assert stripper.feed("b </scr") == ""
    assert stripper.feed("ipt") == ""
    assert stripper.feed(">c") == "c"


def test_it_holds_a_code_span_back_no_further_than_it_can_reach() -> None:
    stripper = Stripper()
    stripper.feed("a ` b")

    assert stripper.feed("x" * (LONGEST_SPAN + 100)).startswith(" ` b")


def test_it_waits_with_a_mark_for_the_first_list_of_sources() -> None:
    stripper = Stripper()

    assert stripper.feed("Water rises[1] twice") == "Water rises"
    stripper.sources = 1
    assert stripper.feed("") == " twice"


def test_it_does_not_wait_for_ever() -> None:
    stripper = Stripper()
    held = stripper.feed("Water rises[1]" + "." * (PATIENCE + 1))

    assert held == "Water rises[1]" + "." * (PATIENCE + 1)
    assert stripper.feed(" again[1] and on") == " again[1] and on"


def test_it_decides_at_once_when_a_list_is_known() -> None:
    assert Stripper(1).feed("So[2] so") == "So[2] so"


def test_it_keeps_marks_when_no_list_ever_comes() -> None:
    assert clean("See [1].", 0) == ("See [1].", ())


def test_it_takes_every_number_for_a_comparison() -> None:
    assert clean("a [1] word[987] arr[0]", ALL_SOURCES)[0] == "a  word arr[0]"
