from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from portal.templatetags import sonde


@pytest.mark.parametrize(
    ("amount", "words"),
    [("0", "0 credits"), ("1", "1 credit"), ("1.0000", "1 credit"), ("0.1000", "0.1 credits"),
     ("2", "2 credits"), ("1234567.5", "1,234,567.5 credits"), ("100", "100 credits")],
)  # fmt: skip
def test_it_counts_credits(amount: str, words: str) -> None:
    assert sonde.credits(Decimal(amount)) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (40, "40 s"), (89.4, "89 s"), (120, "2 min"), (3600, "1 h"), (5400, "1 h 30 min")],
)
def test_it_says_lengths_of_time_as_people_do(seconds: float, words: str) -> None:
    assert sonde.about(seconds) == words


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (65.9, "1:05"), (3723, "1:02:03")])
def test_it_runs_like_a_stopwatch(seconds: float, shown: str) -> None:
    assert sonde.clock(seconds) == shown


def test_it_gives_moments_in_utc_for_the_script_to_translate() -> None:
    at = datetime(2026, 11, 30, 18, 5, 9, tzinfo=UTC)

    assert sonde.moment(at, "full") == (
        '<time datetime="2026-11-30T18:05:09+00:00" data-style="full">30 Nov 2026, 18:05 UTC</time>'
    )
    assert "18:05:09 UTC" in sonde.moment(at, "clock")
    assert sonde.moment(None) == ""


def test_it_gives_a_name_its_title_or_the_name() -> None:
    assert sonde.of({"30m": "Deep"}, "30m") == "Deep"
    assert sonde.of({}, "old") == "old"
