from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.searching import MOST_WORDS, Part, Query, excerpt_of, marked, query_of, words_of


def finds(query: str, text: str) -> bool:
    """As both databases do it."""
    wanted, words = query_of(query), set(words_of(text))
    begun = not wanted.prefix or any(word.startswith(wanted.prefix) for word in words)
    return bool(wanted) and words.issuperset(wanted.words) and begun


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("rivers", "Why do RIVERS bend?"),
        ("bend why", "Why do rivers bend?"),
        ("riv", "Why do rivers bend?"),
        ("why riv", "Why do rivers bend?"),
        ("fluss strasse", "Am Fluß in der Straße"),
        ("Übermorgen", "ubermorgen"),
        ("creme brulee", "Crème brûlée"),
        ("cre\u0301me", "CRÈME"),
        ("lodz", "Łódź"),
        ("ｆｕｌｌ", "full width"),
        ("α-helix", "Α helix"),
        ("研究", "深度研究所的报告"),
        ("研", "深度研究所的报告"),
        ("所", "深度研究所"),
        ("ひらがな", "これはひらがなです"),
        ("한국", "한국어 문서"),
        ("ภาษา", "นี่คือภาษาไทย"),
        ("كتاب", "قرأت الكتاب أمس"),
        ("كتاب", "وَالكِتَابُ هنا"),
        ("مدرسه", "مدرسه"),
        ("ספר", "קראתי והספר טוב"),
        ('"rivers" AND NOT (bend*', "rivers and not bend"),
        ("AT&T", "What is AT&T?"),
        ("3.14", "pi is 3.14"),
        ("x1", "the x1 engine"),
    ],
)
def test_it_finds(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ivers", "Why do rivers bend?"),
        ("riv why", "Why do rivers bend?"),
        ("lakes", "Why do rivers bend?"),
        ("ri", "Why do rivers bend?"),
        ("究研", "深度研究所"),
        ("!?*", "what ever"),
        ("", "what ever"),
        ("_u1", "what ever"),
    ],
)
def test_it_does_not_find(query: str, text: str) -> None:
    assert not finds(query, text)


@given(st.text(max_size=200))
def test_it_makes_words_without_any_sign_of_whatever_is_typed(text: str) -> None:
    query = query_of(text)

    typed = "".join(query.words) + query.prefix
    assert all(letter.isalnum() for letter in typed if letter.isascii())


@given(st.text(max_size=300), st.text(max_size=40))
def test_it_shows_of_a_text_nothing_but_what_stands_there(text: str, query: str) -> None:
    assert "".join(part.text for part in marked(text, query_of(query))) == text


@given(st.text(alphabet="aÀßé研究ñ כת.", min_size=1, max_size=30))
def test_it_marks_whatever_it_finds(text: str) -> None:
    query = query_of(text)

    assert not query or any(part.is_hit for part in marked(text, query))


def test_it_keeps_a_bounded_number_of_words() -> None:
    assert len(words_of(" ".join(map(str, range(MOST_WORDS * 2))))) <= MOST_WORDS + 3


def test_it_shows_the_first_hit_with_what_is_around_it() -> None:
    hit = "The **Crème** is\n[nice](https://x.example/a). "
    text = "## Heading\n\n" + "Nothing here. " * 900 + hit + "Then. " * 200

    parts = excerpt_of(["no", text], query_of("creme"))

    assert [part.text for part in parts if part.is_hit] == ["Crème"]
    shown = "".join(part.text for part in parts)
    assert shown.startswith("… ")
    assert "The Crème is nice. Then." in shown
    assert shown.endswith(" …")


def test_it_has_no_excerpt_where_nothing_stands() -> None:
    assert excerpt_of(["Why do rivers bend?"], query_of("lakes")) == []


def test_it_marks_words_and_not_their_middles() -> None:
    assert marked("art smart artist", Query(("art",))) == [Part("art", True), Part(" smart artist", False)]
