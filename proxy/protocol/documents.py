"""Blocks as documents: materialised ones, and those that arrive as JSON Patch (perplexity-web §7).

One document is kept per (`intended_usage`, field). A patch that does not fit means that we lost the
thread of that document: it is forgotten until a patch replaces it whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException

from proxy.protocol.tolerant import items_of, object_of, objects_of, text_of

_OPERATIONS = frozenset({"add", "replace", "remove"})
"""What the upstream uses. `copy` could double a document with every patch."""
_UNFIT = (JsonPatchException, JsonPointerException, TypeError, ValueError, LookupError, RecursionError)


class Block(msgspec.Struct, frozen=True, gc=False):
    """`value` as it stands now.

    `kept`: it is a document that patches build up, so its lists are whole. `patched`: the paths that
    changed it; None means that all of it is new.
    """

    usage: str
    field: str
    value: dict[str, object]
    kept: bool = False
    patched: tuple[str, ...] | None = None

    def fresh(self, name: str) -> list[tuple[int, object]]:
        """(index, item) of the list `name` where something may be new; patches make it short."""
        items = items_of(self.value.get(name))
        indexes = self._touched(name, len(items))
        return list(enumerate(items)) if indexes is None else [(index, items[index]) for index in indexes]

    def _touched(self, name: str, length: int) -> list[int] | None:
        if self.patched is None:
            return None
        touched: set[int] = set()
        for path in self.patched:
            head, _, rest = path[1:].partition("/")
            if head != name and path:
                continue
            index = rest.partition("/")[0]
            if index == "-":
                touched.add(length - 1)
            elif index.isdecimal():
                touched.add(int(index))
            else:
                return None
        return sorted(index for index in touched if 0 <= index < length)


@dataclass(slots=True)
class Documents:
    """The patched documents of one answer."""

    _values: dict[tuple[str, str], object] = field(default_factory=dict)
    lost: set[tuple[str, str]] = field(default_factory=set)

    def read(self, blocks: object) -> list[Block]:
        """The blocks of one frame, patches applied; what is of no known form is left out."""
        found: list[Block] = []
        for block in items_of(blocks):
            if not isinstance(block, dict):
                continue
            usage = text_of(block.get("intended_usage"))
            diff = block.get("diff_block")
            if isinstance(diff, dict):
                found += self._patch(usage, diff)
                continue
            for name, value in block.items():
                if isinstance(value, dict) and name.endswith("_block"):
                    if self.lost:
                        self.lost.discard((usage, name))
                    found.append(Block(usage, name, value))
        return found

    def _patch(self, usage: str, diff: dict[str, object]) -> list[Block]:
        name = text_of(diff.get("field"))
        key = (usage, name)
        patches = objects_of(diff.get("patches"))
        paths = tuple(text_of(patch.get("path")) for patch in patches)
        if not patches or (key in self.lost and "" not in paths):
            return []
        try:
            self._values[key] = _applied(self._values.pop(key, {}), patches)
        except _UNFIT:
            self.lost.add(key)
            return []
        self.lost.discard(key)
        return [Block(usage, name, object_of(self._values[key]), True, None if "" in paths else paths)]


def _applied(document: object, patches: list[dict[str, object]]) -> object:
    if any(patch.get("op") not in _OPERATIONS for patch in patches):
        raise ValueError("an operation that the upstream does not use")
    return JsonPatch(patches).apply(document, in_place=True)
