"""How many examples a property is tried on, where hypothesis's hundred are too few or too dear."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

QUICK = "quick"
"""The profile of `bin/test --quick`."""


def examples(number: int, **more: Any) -> settings:
    """`number` of them; in the quick run as few as of any other property. `more` are other settings."""
    if settings.get_current_profile_name() == QUICK:
        number = min(number, settings().max_examples)
    return settings(max_examples=number, **more)
