"""Upstream bodies gone wrong: any bytes, any JSON, and a good answer with members replaced."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [place for key, inner in value.items() for place in _places(inner, (*path, key))]
    if isinstance(value, list):
        return found + [
            place for index, inner in enumerate(value) for place in _places(inner, (*path, index))
        ]
    return found


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    items = value.items() if isinstance(value, dict) else enumerate(value)
    changed = {key: _with(inner, path[1:], new) if key == path[0] else inner for key, inner in items}
    return changed if isinstance(value, dict) else list(changed.values())


def hostile_bodies(good: bytes) -> st.SearchStrategy[bytes]:
    answer = json.loads(good)
    damaged = st.builds(_with, st.just(answer), st.sampled_from(_places(answer)), values)
    return st.binary() | (values | damaged).map(lambda value: json.dumps(value).encode())
