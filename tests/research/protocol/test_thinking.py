from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.protocol.thinking import split_thinking
from tests.research.protocol.texts import markdown


@pytest.mark.parametrize(
    ("text", "kept", "thinking"),
    [
        ("<think>a</think>R", "R", "a"),
        ("<think>\na\nb\n</think>\n\n# R", "\n\n# R", "a\nb"),
        ("<THINK>a</Think>R", "R", "a"),
        ("<think>a</think>R<think>b</think>S", "RS", "a\n\nb"),
        ("<think>a<think>b</think>c</think>R", "R", "a<think>b</think>c"),
        ("<think>about the <think> tag</think>R", "R", "about the <think> tag"),
        ("<think>x<think>y</think>R<think>z</think>S", "RS", "x<think>y\n\nz"),
        ("<think></think>R", "R", ""),
        ("<think>```\ncode</think>R\n<think>b</think>S", "R\nS", "```\ncode\n\nb"),
        ("<think>a\n```</think>R", "R", "a\n```"),
        ("```\n<think>x</think>\n```\n<think>y</think>R", "```\n<think>x</think>\n```\nR", "y"),
        ("</think><think>a</think>R", "</think>R", "a"),
    ],
)
def test_it_sets_blocks_apart(text: str, kept: str, thinking: str) -> None:
    thought = split_thinking(text)
    assert (thought.text, thought.thinking) == (kept, thinking)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no block",
        "<think>never closed",
        "R <think>never closed",
        "never opened</think>R",
        "a </think> <think> b",
        "The `<think>` and `</think>` tags",
        "```\n<think>x</think>\n```",
        "~~~\n<think>x</think>",
        "<thinking>x</thinking>",
        "</think><think>",
        "`<think>x</think>` shows it",
    ],
)
def test_it_leaves_text_without_a_whole_block_unchanged(text: str) -> None:
    assert split_thinking(text).text == text
    assert split_thinking(text).thinking == ""


@given(markdown)
def test_it_only_ever_takes_text_away(text: str) -> None:
    kept = iter(text)
    assert all(character in kept for character in split_thinking(text).text)


@given(markdown.filter(lambda text: "<think>" not in text.lower()))
def test_it_changes_nothing_where_nothing_is_opened(text: str) -> None:
    assert split_thinking(text).text == text


@given(st.text("ab \n", max_size=50), st.text("cd# \n", max_size=50))
def test_it_gives_back_both_halves_of_a_thought_and_its_report(thought: str, report: str) -> None:
    split = split_thinking(f"<think>{thought}</think>{report}")
    assert (split.thinking, split.text) == (thought.strip(), report)
