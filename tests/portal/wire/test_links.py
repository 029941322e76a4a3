from __future__ import annotations

import pytest
from hypothesis import given

from portal.wire.blocks import read_blocks
from portal.wire.links import find_links
from tests.research.protocol.texts import markdown


def urls(text: str) -> list[str]:
    return [link.url for link in find_links(text).links]


@pytest.mark.parametrize(
    ("text", "kind", "url", "markup"),
    [
        ("a [b](https://e.com/x) c", "inline", "https://e.com/x", "[b](https://e.com/x)"),
        ('[b](https://e.com "a (title)")', "inline", "https://e.com", '[b](https://e.com "a (title)")'),
        ("[b]( https://e.com\n'x' )", "inline", "https://e.com", "[b]( https://e.com\n'x' )"),
        ("[b](<https://e.com/a b>)", "inline", "https://e.com/a%20b", "[b](<https://e.com/a b>)"),
        ("[b](https://e.com/a_(b_(c)))", "inline", "https://e.com/a_(b_(c))", "[b](https://e.com/a_(b_(c)))"),
        (r"[b](https://e.com/a\)b)", "inline", "https://e.com/a)b", r"[b](https://e.com/a\)b)"),
        (
            "[b](https://e.com/?a=1&amp;b=2)",
            "inline",
            "https://e.com/?a=1&b=2",
            "[b](https://e.com/?a=1&amp;b=2)",
        ),
        ("[b](https://e.com/?a&copy=2)", "inline", "https://e.com/?a&copy=2", "[b](https://e.com/?a&copy=2)"),
        ("a <https://e.com/x_y> b", "autolink", "https://e.com/x_y", "<https://e.com/x_y>"),
        ("see HTTPS://E.com/x now", "bare", "HTTPS://E.com/x", "HTTPS://E.com/x"),
    ],
)
def test_it_finds_each_form_of_link_with_its_whole_markup(
    text: str, kind: str, url: str, markup: str
) -> None:
    (link,) = find_links(text).links
    assert (link.kind, link.url, text[link.start : link.end]) == (kind, url, markup)


@pytest.mark.parametrize("use", ["[a b][L 1]", "[L 1][]", "[l  1]"])
def test_it_resolves_references_by_label(use: str) -> None:
    found = find_links(f"See {use}.\n\n[L 1]: <https://e.com/x> 'title'\n")
    assert [(link.kind, link.url) for link in found.links] == [
        ("reference", "https://e.com/x"),
        ("definition", "https://e.com/x"),
    ]


def test_it_takes_the_first_of_two_definitions() -> None:
    assert urls("[x]\n\n[x]: https://e.com/1\n[x]: https://e.com/2")[0] == "https://e.com/1"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://e.com/x.", "https://e.com/x"),
        ("https://e.com/x, and", "https://e.com/x"),
        ("https://e.com/x;:!?", "https://e.com/x"),
        ("https://e.com/x...", "https://e.com/x"),
        ("https://e.com/v1.2/a,b;c", "https://e.com/v1.2/a,b;c"),
        ("(https://e.com/x)", "https://e.com/x"),
        ("(see https://e.com/x_(y)).", "https://e.com/x_(y)"),
        ("https://e.com/a(b", "https://e.com/a"),
        ("[https://e.com/x]", "https://e.com/x"),
        ("{https://e.com/x}", "https://e.com/x"),
        ('"https://e.com/x"', "https://e.com/x"),
        ("'https://e.com/x'", "https://e.com/x"),
        ("“https://e.com/x”", "https://e.com/x"),
        ("«https://e.com/x»", "https://e.com/x"),
        ("**https://e.com/x**", "https://e.com/x"),
        ("_https://e.com/x_", "https://e.com/x"),
        ("|https://e.com/x|", "https://e.com/x"),
        ("参见https://e.com/x。后面", "https://e.com/x"),
        ("（https://e.com/x），", "https://e.com/x"),
        ("「https://e.com/x」", "https://e.com/x"),
        ("https://e.com/日本、次", "https://e.com/日本"),
        ("https://bücher.example/a", "https://bücher.example/a"),
        ("https://e.com/a%20b", "https://e.com/a%20b"),
        (r"https://e.com/a\_b", "https://e.com/a_b"),
        ("https://e.com/?a=1&amp;b=2&gt;", "https://e.com/?a=1&b=2"),
        ("https://e.com/?q[]=1&r[0]=2", "https://e.com/?q[]=1&r[0]=2"),
        ("https://e.com/x[1]", "https://e.com/x"),
        ("https://e.com/x[1, 2].", "https://e.com/x"),
        ("https://[::1]:8080/x", "https://[::1]:8080/x"),
        ('<a href="https://e.com/x">', "https://e.com/x"),
    ],
)
def test_it_ends_a_bare_address_where_the_sentence_goes_on(text: str, url: str) -> None:
    assert urls(text) == [url]


@pytest.mark.parametrize(
    "text",
    [
        "`https://e.com`",
        "``a ` https://e.com``",
        "```\nhttps://e.com\n```",
        "~~~\nhttps://e.com",
        "    https://e.com",
        "- item\n\nparagraph\n\n    https://e.com",
        "> ```\n> https://e.com\n> ```",
        "- ```\n  https://e.com\n  ```",
        "```py\nx\n~~~\nhttps://e.com\n```",
        "![alt](https://e.com/a.png)",
        "![https://e.com](a.png)",
        "https://user:secret@e.com/",
        "ftp://e.com",
        "xhttps://e.com",
        "https://",
        "[x](mailto:a@e.com)",
        "[x](javascript:alert(1))",
        "[x](/relative)",
        "https://e.com/" + "a" * 3000,
    ],
)
def test_it_finds_no_link_in_code_and_images_nor_to_elsewhere(text: str) -> None:
    assert urls(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "a ` https://e.com",
        "``` x ``` https://e.com",
        "```\ncode\n```\nhttps://e.com",
        "- a\n\n    https://e.com",
        "text\n    https://e.com",
        "one `\n\ntwo ` https://e.com",
        "> ```\nhttps://e.com",
        r"\`https://e.com \`",
        "| ` |\n| ` https://e.com |",
        "~~~\n```\n~~~\nhttps://e.com",
        "- item\nlazy line\n\n    https://e.com",
    ],
)
def test_it_finds_links_beside_what_only_looks_like_code(text: str) -> None:
    assert urls(text) == ["https://e.com"]


def test_it_takes_the_outer_of_a_link_around_an_image_or_an_address() -> None:
    assert urls("[![alt](https://e.com/i.png)](https://e.com/page)") == ["https://e.com/page"]
    assert urls("[https://e.com/shown](https://e.com/meant)") == ["https://e.com/meant"]


def test_it_takes_the_inner_of_two_links_in_each_other() -> None:
    assert urls("[a [b](https://e.com/in) c](https://e.com/out)") == ["https://e.com/in", "https://e.com/out"]
    assert [link.kind for link in find_links("[a [b](https://e.com/in) c](https://e.com/out)").links] == [
        "inline",
        "bare",
    ]


def test_it_hands_on_the_brackets_that_are_no_links() -> None:
    text = "[1] [x](https://e.com) [[2]](https://e.com) [a [3] b] `[4]`"
    brackets = [text[start:end] for start, end in find_links(text).brackets]
    assert brackets == ["[1]", "[a [3] b]", "[3]"]


def test_it_leaves_numbers_to_the_citations_even_where_they_are_defined() -> None:
    found = find_links("As shown [1][2].\n\n[1]: https://e.com/1\n[2]: https://e.com/2")
    assert len(found.brackets) == 2
    assert {link.kind for link in found.links} == {"definition"}


@given(markdown)
def test_it_keeps_every_span_inside_the_text_and_in_order(text: str) -> None:
    found = find_links(text)
    for spans in ([(link.start, link.end) for link in found.links], found.brackets, read_blocks(text).prose):
        assert list(spans) == sorted(spans)
        assert all(0 <= start < end <= len(text) for start, end in spans)


@given(markdown)
def test_it_finds_a_bare_address_again_in_its_own_markup(text: str) -> None:
    for link in find_links(text).links:
        if link.kind == "bare":
            assert urls(text[link.start : link.end]) == [link.url]
