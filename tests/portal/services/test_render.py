from __future__ import annotations

import re
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.services.render import CLOSE, DIGITS, OPEN, Heading, contents_of, render_markdown
from research.protocol.outcome import Finished, Found
from research.protocol.report import build_report

FOUND = tuple(Found(f"https://s{place}.example/", f"Source {place}", number=place) for place in range(1, 9))


def rendered(text: str) -> str:
    report = build_report(Finished(text, found=FOUND))
    return render_markdown(report.text, report.marks, report.sources)


def chip(*numbers: int) -> str:
    return f'<sup class="cites">{"".join(map(_link, numbers))}</sup>'


def _link(number: int) -> str:
    rel = "nofollow noopener noreferrer"
    named = f'href="#source-{number}" data-source="{number}" aria-label="Source {number}"'
    return f'<a {named} rel="{rel}">{number}</a>'


class Seen(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


def test_it_renders_markdown_one_level_below_the_page_s_own_title() -> None:
    html = rendered("# Title\n\nA *word*, **two** and `three`.\n\n###### Deep")

    assert '<h2 dir="auto" id="s-1">Title</h2>' in html
    assert '<p dir="auto">A <em>word</em>, <strong>two</strong> and <code>three</code>.</p>' in html
    assert '<h6 dir="auto" id="s-2">Deep</h6>' in html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Tides [1].", f"Tides{chip(1)}."),
        ("Tides[1][2].", f"Tides{chip(1)}{chip(2)}."),
        ("Tides [1, 3].", f"Tides{chip(1, 3)}."),
        ("Tides [1-3].", f"Tides{chip(1, 2, 3)}."),
        ("**Tides [1]** rise", f"<strong>Tides{chip(1)}</strong> rise"),
        ('**"Tides"**[1] rise', f'<strong>"Tides"</strong>{chip(1)} rise'),
        ("*Tides*[8]", f"<em>Tides</em>{chip(8)}"),
        ("Tides [0].", 'Tides <span class="unsure">[0]</span>.'),
        ("Tides [14].", 'Tides <span class="unsure">[14]</span>.'),
        ("Tides [1, 99].", f'Tides <span class="unsure">[1, 99]</span>{chip(1)}.'),
        ("`tides[1]` [2]", f"<code>tides[1]</code>{chip(2)}"),
        ("In [2026] they rose.", "In [2026] they rose."),
    ],
)
def test_it_makes_links_of_sound_marks_and_leaves_others_as_they_are(text: str, html: str) -> None:
    assert rendered(text) == f'<p dir="auto">{html}</p>\n'


def test_it_leaves_marks_in_code_and_in_links_alone() -> None:
    html = rendered("[see [1] here](https://a.example/[1]) and\n\n```\nx = y[1] # [2]\n```")

    assert "cites" not in html
    assert "see [1] here" in html
    assert "x = y[1] # [2]" in html
    assert OPEN not in html


def test_it_keeps_offsets_right_after_wide_characters_and_forged_placeholders() -> None:
    forged = f"{OPEN}{DIGITS[0]}{CLOSE}"

    html = rendered(f"🌊 Été {forged} [1] und [2]")

    assert html.count('class="cites"') == 2
    assert html.index('data-source="1"') < html.index("und") < html.index('data-source="2"')
    assert DIGITS[0] not in html


@pytest.mark.parametrize(
    ("text", "url", "after"),
    [
        ("See https://a.example/b_(c).", "https://a.example/b_(c)", "</a>."),
        ("(https://a.example/b)", "https://a.example/b", "</a>)"),
        ("https://a.example/b[1]", "https://a.example/b", "</a><sup"),
        ("<https://a.example/>", "https://a.example/", "</a>"),
    ],
)
def test_it_links_bare_addresses_without_the_sentence_around_them(text: str, url: str, after: str) -> None:
    html = rendered(text)

    assert f'<a href="{url}" rel="nofollow noopener noreferrer">{url}{after}' in html


def test_it_shows_images_as_links_and_loads_nothing() -> None:
    html = rendered("![A chart](https://a.example/c.png) ![](data:image/png;base64,AAAA)")

    assert "img" not in Seen(html).tags
    assert '<a href="https://a.example/c.png" rel="nofollow noopener noreferrer">A chart</a> image' in html


def test_it_shows_tables_in_a_frame_that_scrolls_and_aligns_by_class() -> None:
    html = rendered("| a | b |\n|--:|:-:|\n| 1 | 2 |")

    assert '<div class="table" tabindex="0"><table dir="auto">' in html
    assert '<td class="right">1</td>' in html
    assert "style" not in html


def test_it_lets_every_block_find_its_own_direction() -> None:
    html = rendered("שלום עולם\n\n- مرحبا\n\n> hello\n\n```\ncode\n```")

    assert html.count('dir="auto"') == 3
    assert '<pre tabindex="0" dir="ltr"><code>code\n</code></pre>' in html


def test_it_lists_the_contents_as_plain_text() -> None:
    html = rendered("# One & *two* [1]\n\n## `three` <b>\n\ntext\n\n## ")

    assert contents_of(html) == [
        Heading(2, "s-1", "One & two"),
        Heading(3, "s-2", "three <b>"),
        Heading(3, "s-3", ""),
    ]


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src='https://evil.example'></iframe>",
    "<style>*{display:none}</style>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox(1))",
    "[x](//evil.example/)",
    "[x](/admin/logout)",
    "[x](#s-1)",
    '[x](https://a.example/ "onmouseover=alert(1)")',
    '[x](https://a.example/"onmouseover="alert(1))',
    "![x](javascript:alert(1))",
    "[ref]\n\n[ref]: javascript:alert(1)",
    '<https://a.example/"onclick=alert(1)>',
    "| <img src=x onerror=alert(3)> |\n|---|\n| x |",
    "```<script>\nalert(1)\n```",
    "# <script>alert(1)</script>",
    "<!-- --><form action='https://evil.example'><input name=password></form>",
    "x" * 10_000 + "[1](" * 500,
    "> " * 500 + "deep",
    "* " * 300 + "x",
    "[" * 5_000,
    "`" * 5_001,
    "*_" * 5_000,
    "\ud800 lone surrogate and \x00 nul",
]
NAMES = {"href", "data-source", "aria-label", "rel", "class", "dir", "id", "tabindex", "start"}


@pytest.mark.parametrize("text", HOSTILE)
def test_it_lets_nothing_hostile_through(text: str) -> None:
    check_harmless(rendered(text + "\n\nThe end [1]."))


@given(st.text(st.sampled_from("[]()<>\"'`*_#|-\n 1aé&;:/!\\" + OPEN + CLOSE + DIGITS[0]), max_size=80))
def test_it_is_harmless_whatever_the_text(text: str) -> None:
    check_harmless(rendered(f"{text} javascript:x [1]"))


def check_harmless(html: str) -> None:
    seen = Seen(html)
    assert not {"script", "img", "svg", "iframe", "style", "form", "input", "object", "base"} & set(seen.tags)
    for tag, name, value in seen.attributes:
        assert name in NAMES, (tag, name)
        if name == "href":
            assert re.match(r"https?://|#source-\d+$", value or ""), value


@pytest.mark.slow
@pytest.mark.parametrize(
    "paragraph",
    [
        "Lorem ipsum [1] dolor **sit** amet https://a.example/b consetetur, *sed* diam `x` [2][3].\n\n",
        "## Head [1]\n\n- one [2]\n- two `x`\n\n| a | b |\n|---|---|\n| [3] | 2 |\n\n",
    ],
)
def test_it_renders_a_very_long_report_in_bounded_time(paragraph: str) -> None:
    text = paragraph * (600_000 // len(paragraph))
    report = build_report(Finished(text, found=FOUND))

    started = time.process_time()
    html = render_markdown(report.text, report.marks, report.sources)

    assert time.process_time() - started < 10  # usually under 2: this is here to notice quadratic time
    assert html.count('class="cites"') > 10_000


@dataclass(frozen=True, slots=True)
class Cite:
    start: int
    end: int
    sources: tuple[int, ...]
    problem: None = None


@dataclass(frozen=True, slots=True)
class Numbered:
    number: int


def test_it_gives_every_text_of_a_page_anchors_of_its_own() -> None:
    place = f"{uuid4().hex}-"

    html = render_markdown("# Tides\n\nThe moon.", [Cite(17, 17, (1,))], [Numbered(1)], place)

    assert f'id="s-{place}1"' in html
    assert f'moon<sup class="cites"><a href="#source-{place}1" data-source="{place}1"' in html
    assert "</sup>.</p>" in html
