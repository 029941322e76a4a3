"""When to look again: poll intervals and back-off. Pure; time and chance are arguments."""

from __future__ import annotations

FIRST = 2.0
SLOWEST = 30.0
STEPS = (2.0, 3.0, 5.0, 10.0, 15.0, SLOWEST)
"""Few distinct intervals, so that a batch of runs is put back with few statements."""
LEAST = {"web": 5.0}
"""A look through a web session brings all of the answer so far, and is one that a browser would not make."""


def poll_interval(elapsed: float, fixed: float = 0, backend: str = "") -> float:
    """Seconds until the next poll of a run that has been running for `elapsed` seconds.

    A run that has taken long will hardly end in the next second: waits grow to about a
    tenth of the time passed. `fixed` (RESEARCH_POLL_SECONDS) replaces all that when set.
    """
    if fixed > 0:
        return fixed
    wanted = max(elapsed / 10, LEAST.get(backend, FIRST))
    return next((step for step in STEPS if step >= wanted), SLOWEST)


def back_off(
    faults: int, chance: float, asked: float | None = None, *, base: float = 1.0, cap: float = 60.0
) -> float:
    """Seconds to wait after the `faults`-th failure in a row (1 for the first).

    Doubles from `base` to `cap`, spread over ±25 % by `chance` in 0..1; never sooner than
    the upstream `asked` for, which itself is believed up to ten minutes.
    """
    doublings = min(max(faults - 1, 0), 16)
    wait = min(cap, base * (1 << doublings)) * (0.75 + chance / 2)
    return max(wait, min(asked or 0.0, 600.0))
