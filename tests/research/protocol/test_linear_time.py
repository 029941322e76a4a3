"""Eight times the text may cost about eight times the work, never sixty-four: no text makes a report slow.

The bound lies half way between, so that a busy machine does not decide.
"""

from __future__ import annotations

import time
from random import Random

import pytest

from portal.wire.urls import LONGEST
from research.protocol.outcome import Finished, Found
from research.protocol.report import build_report, url_citations
from tests.research.protocol.texts import PIECES

SIZE = 15_000
TIMES, BOUND = 8, 24
HOSTILE = {
    "open brackets": "[",
    "closed brackets": "[]",
    "nested brackets": "[" * 500 + "]" * 500,
    "unfinished links": "[a](",
    "unfinished titles": '[a](u "',
    "unfinished titles in parentheses": "[a](u (x ",
    "spaces in links": "[a](" + " " * 40,
    "unfinished references": "[a][",
    "addresses in parentheses": "https://a(",
    "addresses cut at parentheses": "https://a)",
    "addresses in all brackets": "https://a{[(",
    "dots after addresses": "https://a" + "." * 50 + " ",
    "entities after addresses": "https://a&a;",
    "one long address": "a",
    "unfinished autolinks": "<https://",
    "backticks in pairs": "` `` ",
    "backticks of every length": "".join("`" * length + " " for length in range(1, 340)),
    "marks": "[1]",
    "ranges": "[1-30]",
    "indexes": "abcdefghijklmnopqrstuvwxyz_abcdefghijklm[1]",
    "footnotes": "[^1] ",
    "definitions": "[1]: https://a.example\n",
    "reference lists": "[1] https://a.example\n",
    "fences": "```\n",
    "blank lines": "\n",
    "table rows": "|\n",
    "quotations": "> ",
    "lists": "- ",
    "escapes": "\\",
    "open thoughts": "<think>",
    "thoughts": "<think></think>",
    "thoughts backwards": "</think><think>",
    "code fences in thoughts": "<think>\n```\n",
}


def text_of(piece: str, size: int) -> str:
    return ("https://a/" if piece == "a" else "") + (piece * (size // len(piece) + 1))[:size]


def work(text: str, times: int = 1) -> float:
    """Least processor time of several builds, in seconds."""
    spent = []
    for _ in range(times):
        begun = time.process_time()
        url_citations(build_report(Finished(text)))
        spent.append(time.process_time() - begun)
    return min(spent)


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_grows_with_the_text_and_no_faster(piece: str) -> None:
    assert work(text_of(piece, SIZE * TIMES)) < work(text_of(piece, SIZE), times=3) * BOUND + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_it_grows_no_faster_on_a_megabyte_of_everything(seed: int) -> None:
    pieces = Random(seed).choices(PIECES, k=400_000)
    text = "".join(pieces)[:1_000_000]
    assert len(text) == 1_000_000
    assert work(text) < work(text[: len(text) // TIMES], times=2) * BOUND + 0.1


def test_it_grows_with_the_sources_and_no_faster() -> None:
    def grow(count: int) -> float:
        found = tuple(Found(f"https://e.com/{number % 9 * number}", number=number) for number in range(count))
        begun = time.process_time()
        build_report(Finished("[1] [2]", found=found))
        return time.process_time() - begun

    assert grow(8000) < grow(8000 // TIMES) * BOUND + 0.1


def test_it_takes_no_address_longer_than_a_browser_would() -> None:
    assert build_report(Finished("https://a.example/" + "a" * LONGEST)).sources == ()
