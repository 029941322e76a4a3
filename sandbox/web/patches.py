"""The difference between two documents as JSON Patch, as the web backend writes it (perplexity-web §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Patch = dict[str, Any]


def _pointer(path: str, part: str | int) -> str:
    return f"{path}/{str(part).replace('~', '~0').replace('/', '~1')}"


def _lists(old: list[Any], new: list[Any], path: str) -> Iterator[Patch]:
    for number in range(min(len(old), len(new))):
        yield from difference(old[number], new[number], _pointer(path, number))
    for number in range(len(old), len(new)):
        yield {"op": "add", "path": _pointer(path, number), "value": new[number]}
    for number in range(len(old) - 1, len(new) - 1, -1):
        yield {"op": "remove", "path": _pointer(path, number)}


def _objects(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Patch]:
    for name, value in new.items():
        if name in old:
            yield from difference(old[name], value, _pointer(path, name))
        else:
            yield {"op": "add", "path": _pointer(path, name), "value": value}
    for name in old:
        if name not in new:
            yield {"op": "remove", "path": _pointer(path, name)}


def difference(old: Any, new: Any, path: str = "") -> Iterator[Patch]:
    """Patches that make `new` of `old`; the first of a document, where `old` is None, replaces all of it."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(old, new, path)
    else:
        yield {"op": "replace", "path": path, "value": new}
