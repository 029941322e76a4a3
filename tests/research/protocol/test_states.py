from __future__ import annotations

import pytest

from research.protocol.states import LIVE, MOVES, PUBLIC, TERMINAL, State, may_move


def test_it_lets_nothing_leave_a_terminal_state() -> None:
    assert {State.COMPLETED, State.FAILED, State.INCOMPLETE, State.CANCELLED} == TERMINAL
    assert not any(may_move(state, after) for state in TERMINAL for after in State)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_it_can_bring_every_live_state_to_an_end(state: State) -> None:
    reached, new = {state}, {state}
    while new:
        new = {after for before in new for after in MOVES[before]} - reached
        reached |= new
    assert reached & TERMINAL


def test_it_delivers_a_report_only_from_states_in_which_the_upstream_has_the_job() -> None:
    delivering = {before for before in State if {State.COMPLETED, State.INCOMPLETE} & MOVES[before]}
    assert delivering == {State.RUNNING, State.CANCELLING}


def test_it_shows_only_the_six_states_of_the_contract() -> None:
    shown = {PUBLIC[state] for state in State}
    assert shown == {"queued", "in_progress", "completed", "failed", "incomplete", "cancelled"}
