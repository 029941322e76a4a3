"""How a suite of checks is put to the test: a good subject passes all, and each check fails a bad one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from portal.wire.conformance.checks import Result, Suite, faults

Change = Callable[[Any], object]


def passes(suite: Suite[Any], subject: Any) -> set[str]:
    """The ids of the checks that had something to look at; all of them pass."""
    results = suite.run(subject)
    assert [f"{one.id}: {one.detail}" for one in results if one.verdict != "PASS"] == []
    return {one.id for one in results}


def verdict(suite: Suite[Any], subject: Any, id: str) -> Result:
    [result] = [one for one in suite.run(subject) if one.id == id]
    return result


def fails(suite: Suite[Any], subject: Any, id: str) -> None:
    result = verdict(suite, subject, id)
    [check] = [one for one in suite.checks if one.id == id]
    assert result.verdict == check.severity
    assert result.detail
    assert (id in " ".join(faults([result]))) == (check.severity == "FAIL")


def changed(value: Any, change: Change) -> Any:
    """A deep copy of `value`, after `change` had its way with it."""
    copy = deepcopy(value)
    change(copy)
    return copy


def put(*way: Any, to: Any) -> Change:
    """Set what lies along `way`."""

    def change(value: Any) -> None:
        for step in way[:-1]:
            value = value[step]
        value[way[-1]] = to

    return change


def drop(*way: Any) -> Change:
    """Delete what lies along `way`."""

    def change(value: Any) -> None:
        for step in way[:-1]:
            value = value[step]
        del value[way[-1]]

    return change
