"""JSON of any shape that is stored and repeated as it came: whether everything behind can carry it."""

from __future__ import annotations

import re

_UNSOUND = re.compile("[\0\ud800-\udfff]")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def flaw_of(value: object) -> str:
    """What is wrong with a JSON value, in words that follow its name; "" for nothing.

    Text that no UTF-8 stream or database takes, and integers of more than 64 bits.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if _UNSOUND.search(one):
                return "holds a NUL character or a lone surrogate"
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, int) and not _SMALLEST <= one <= _LARGEST:
            return "holds a number that is too large"
    return ""
