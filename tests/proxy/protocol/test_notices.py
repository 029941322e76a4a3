from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocol.delta import Source
from proxy.protocol.notices import appended, footer, remaining, substituted, without_notices

# proxy-contract §7, but for `auto`, which says nothing since it changes nothing (§17.28).
COUNTERS: list[tuple[int | None, bool, str | None]] = [
    (157, True, None),
    (156, True, "[Remaining Pro Search: 155]"),
    (155, False, None),
    (6, True, "[Remaining Pro Search: 5]"),
    *((before, True, f"[Remaining Pro Search: {before - 1}]") for before in (5, 4, 3, 2, 1)),
    (0, True, None),
    (3, False, None),
    (None, True, None),
    (None, False, None),
]


@pytest.mark.parametrize(("before", "counted", "notice"), COUNTERS)
def test_it_tells_the_remaining_uses_when_they_change(
    before: int | None, counted: bool, notice: str | None
) -> None:
    after = max(before - 1, 0) if before is not None and counted else before
    assert remaining(before, after) == notice


def test_it_puts_a_blank_line_before_each_part() -> None:
    assert appended(["[a]", "[b]"]) == "\n\n[a]\n\n[b]"
    assert appended([]) == ""


def test_it_lists_ten_sources_at_most_under_their_own_numbers() -> None:
    sources = [Source(f"https://{number}.example") for number in range(1, 13)]
    sources[1] = Source("")

    lines = footer(sources).split("\n")

    assert lines[:4] == ["---", "Sources:", "[1] https://1.example", "[3] https://3.example"]
    assert lines[-1] == "[11] https://11.example"
    assert footer([Source("")]) == ""


HISTORY: dict[str, tuple[str, str]] = {
    "a substitution": (f"Yes.\n\n{substituted('GPT-5 Nano')}", "Yes."),
    "both": (f"Yes.\n\n{substituted('GPT-5.6 Terra')}\n\n[Remaining Pro Search: 5]\n", "Yes."),
    "the older wording": ("Yes.\n\n[gpt 被 Perplexity 替換成 GPT-5 Nano]", "Yes."),
    "the older wording, without a subject": ("Yes.\n[被 Perplexity 替換成 sonar]\n", "Yes."),
    "a footer": ("Yes.\n\n---\nSources:\n[1] https://a.example\n[2] https://b.example", "Yes."),
    "a footer and notices": (
        "Yes.\n\n---\nSources:\n[1] https://a.example\n\n[Remaining Pro Search: 0]",
        "Yes.",
    ),
    "nothing of ours": ("Yes [1].\n\n---\nSources: none [x]", "Yes [1].\n\n---\nSources: none [x]"),
    "a number that is not ours": ("[Remaining Pro Search: many]", "[Remaining Pro Search: many]"),
}


@pytest.mark.parametrize(("text", "plain"), HISTORY.values(), ids=HISTORY)
def test_it_takes_out_again_what_it_added(text: str, plain: str) -> None:
    assert without_notices(text) == plain


@given(st.text(alphabet="ab .\n-", max_size=40), st.integers(0, 999), st.integers(0, 3))
def test_it_gives_back_the_answer_it_was_added_to(answer: str, left: int, listed: int) -> None:
    sources = [Source(f"https://{number}.example/") for number in range(listed)]
    parts = [
        part for part in (footer(sources), substituted("Sonar 2"), f"[Remaining Pro Search: {left}]") if part
    ]

    assert without_notices(answer + appended(parts)).strip() == answer.strip()
