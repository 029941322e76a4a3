"""One sentence said of every row of a table, as one test.

A row that is a test of its own costs three milliseconds to collect, to hand out and to report, which is more
than most rows take. Here all rows are looked at, and those that fail are told together, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Test = Callable[..., None]


def of_each(rows: Mapping[str, Sequence[Any]]) -> Callable[[Test], Callable[[], None]]:
    """For tests without fixtures: the arguments of each row by its name."""
    assert rows, "a table without rows holds nothing"

    def say(test: Test) -> Callable[[], None]:
        def all_rows() -> None:
            failures = [failure for name, row in rows.items() if (failure := _failure(test, name, row))]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} rows", failures)

        all_rows.__name__, all_rows.__doc__ = test.__name__, test.__doc__
        all_rows.place_as = test  # type: ignore[attr-defined]  # where pytest says that it stands
        return all_rows

    return say


def _failure(test: Test, name: str, row: Sequence[Any]) -> Exception | None:
    try:
        test(*row)
    except Exception as failure:
        failure.add_note(f"in the row: {name}")
        return failure
    return None
