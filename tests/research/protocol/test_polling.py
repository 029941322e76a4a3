from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from research.protocol.polling import FIRST, SLOWEST, back_off, poll_interval

seconds = st.floats(0, 10_000)


@given(seconds, seconds)
def test_it_never_polls_more_often_as_a_run_gets_older(one: float, other: float) -> None:
    younger, older = sorted((one, other))
    assert FIRST <= poll_interval(younger) <= poll_interval(older) <= SLOWEST


@given(seconds)
def test_it_obeys_a_fixed_interval(elapsed: float) -> None:
    assert poll_interval(elapsed, fixed=0.5) == 0.5


@given(st.integers(1, 100), st.floats(0, 1))
def test_it_keeps_back_off_within_its_bounds(faults: int, chance: float) -> None:
    assert 0.75 <= back_off(faults, chance) <= 75


def test_it_doubles_from_fault_to_fault() -> None:
    assert [back_off(faults, 0.5) for faults in (1, 2, 3, 4)] == [1, 2, 4, 8]


def test_it_waits_as_long_as_the_upstream_asks_but_not_for_ever() -> None:
    assert back_off(1, 0.5, asked=90) == 90
    assert back_off(1, 0.5, asked=10**9) == 600


def test_it_looks_less_often_through_a_web_session() -> None:
    assert [poll_interval(elapsed, backend="web") for elapsed in (0, 60, 200)] == [5, 10, 30]
