"""The life of a run: one table of legal moves, and what each state means outside.

Nothing but this table decides what may follow what. A move is made by a compare-and-set on
the state it starts from (research.services.moves); terminal states have no way out.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"  # admitted, waiting for a worker or for its next attempt
    SUBMITTING = "submitting"  # a worker is about to send it, or has: the one open question
    RUNNING = "running"  # the upstream has it and it is polled
    CANCELLING = "cancelling"  # it is to be stopped upstream, by its user or its budget
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"


MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.SUBMITTING, State.FAILED, State.CANCELLED}),
    State.SUBMITTING: frozenset(
        {State.QUEUED, State.RUNNING, State.CANCELLING, State.FAILED, State.CANCELLED}
    ),
    State.RUNNING: frozenset(
        {State.CANCELLING, State.COMPLETED, State.FAILED, State.INCOMPLETE, State.CANCELLED}
    ),
    State.CANCELLING: frozenset({State.COMPLETED, State.FAILED, State.INCOMPLETE, State.CANCELLED}),
    State.COMPLETED: frozenset(),
    State.FAILED: frozenset(),
    State.INCOMPLETE: frozenset(),
    State.CANCELLED: frozenset(),
}

TERMINAL = frozenset(state for state, after in MOVES.items() if not after)
LIVE = frozenset(State) - TERMINAL
POLLED = frozenset({State.RUNNING, State.CANCELLING})

PUBLIC = {state: state.value for state in TERMINAL} | {
    State.QUEUED: "queued",
    State.SUBMITTING: "in_progress",
    State.RUNNING: "in_progress",
    State.CANCELLING: "in_progress",
}
"""What the APIs call a state (agent-api §5): a poll never shows `cancelling`."""


def may_move(before: State, after: State) -> bool:
    return after in MOVES[before]
