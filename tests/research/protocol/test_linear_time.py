"""Eight times the text may cost about eight times the work, never sixty-four: no text makes a report slow.

Work is this thread's processor time with the garbage collector away: what else the process holds or does
is not the report's. A busy machine only ever adds to it, so the least of several looks counts, and a
quotient of 24 lies as far from the 8 of linear work as from the 64 of quadratic.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

from portal.wire.urls import LONGEST
from research.protocol.outcome import Finished, Found
from research.protocol.report import build_report, url_citations
from tests.research.protocol.texts import PIECES

SIZE = 15_000
TIMES, BOUND, LOOKS = 8, 24, 5
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


def work(do: Callable[[], object]) -> float:
    """Seconds of processor time that `do` takes."""
    begun = time.thread_time()
    do()
    return time.thread_time() - begun


def grows_linearly(small: Callable[[], object], large: Callable[[], object]) -> bool:
    """Whether `large`, with TIMES the input, ever keeps within BOUND times the least work of `small`."""
    least = min(work(small) for _ in range(3))
    return any(work(large) < least * BOUND + 0.1 for _ in range(LOOKS))


def report_of(text: str) -> Callable[[], object]:
    return lambda: url_citations(build_report(Finished(text)))


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_grows_with_the_text_and_no_faster(piece: str) -> None:
    assert grows_linearly(report_of(text_of(piece, SIZE)), report_of(text_of(piece, SIZE * TIMES)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_it_grows_no_faster_on_a_megabyte_of_everything(seed: int) -> None:
    pieces = Random(seed).choices(PIECES, k=400_000)
    text = "".join(pieces)[:1_000_000]
    assert len(text) == 1_000_000
    assert grows_linearly(report_of(text[: len(text) // TIMES]), report_of(text))


def test_it_grows_with_the_sources_and_no_faster() -> None:
    def report(count: int) -> Callable[[], object]:
        found = tuple(Found(f"https://e.com/{number % 9 * number}", number=number) for number in range(count))
        return lambda: build_report(Finished("[1] [2]", found=found))

    assert grows_linearly(report(8000 // TIMES), report(8000))


def test_it_takes_no_address_longer_than_a_browser_would() -> None:
    assert build_report(Finished("https://a.example/" + "a" * LONGEST)).sources == ()
