from __future__ import annotations

from dataclasses import fields, replace
from typing import Any
from uuid import uuid4

import pytest

from research.protocol.fingerprint import fingerprint
from research.protocol.options import RunRequest
from research.protocol.outcome import Options

PLAIN = RunRequest("Why?")
OTHER: dict[str, Any] = {
    "instructions": "Be brief.",
    "search_mode": "academic",
    "recency": "day",
    "domains": ("a.org",),
    "after_date": "01/01/2026",
    "before_date": "02/01/2026",
    "reasoning_effort": "high",
    "model": "m",
    "language": "fr",
    "attachments": ("file-a",),
}


def print_of(request: RunRequest, preset: str = "30m") -> str:
    return fingerprint(request, preset)


def test_it_knows_every_option_there_is() -> None:
    assert set(OTHER) == {member.name for member in fields(Options)}


@pytest.mark.parametrize("name", sorted(OTHER))
def test_it_changes_with_each_option(name: str) -> None:
    changed = replace(PLAIN, options=replace(Options(), **{name: OTHER[name]}))
    assert print_of(changed) != print_of(PLAIN)


def test_it_changes_with_question_preset_budget_and_earlier_run() -> None:
    prints = {
        print_of(PLAIN),
        fingerprint(PLAIN, "30m", 3600),
        print_of(RunRequest("How?")),
        print_of(PLAIN, "60m"),
        print_of(replace(PLAIN, previous_id=uuid4())),
    }
    assert len(prints) == 5


@pytest.mark.parametrize(
    "same",
    [
        RunRequest("  Why?\n"),
        replace(PLAIN, metadata={"a": "b"}),
        replace(PLAIN, idempotency_key="k"),
        replace(PLAIN, retry_count=2),
        replace(PLAIN, ignored=("model",)),
        replace(PLAIN, preset="high"),
        replace(PLAIN, options=Options(instructions="")),
    ],
)
def test_it_looks_past_what_changes_nothing(same: RunRequest) -> None:
    assert print_of(same) == print_of(PLAIN)


def test_it_takes_letters_for_what_they_are() -> None:
    assert print_of(RunRequest("Cafe\u0301?")) == print_of(RunRequest("Caf\u00e9?"))


def test_it_takes_domains_as_a_set() -> None:
    one, other = ("a.org", "b.org"), ("b.org", "a.org", "b.org")
    assert print_of(replace(PLAIN, options=Options(domains=one))) == print_of(
        replace(PLAIN, options=Options(domains=other))
    )


def test_it_is_a_sha_256_in_hex() -> None:
    assert len(print_of(PLAIN)) == 64
    assert int(print_of(PLAIN), 16)
