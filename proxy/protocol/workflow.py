"""The `workflow_root` block: fast models may tell everything in it, the answer included.

`{steps: [{items: [{type, payload: {queries_payload | sources_payload | text_payload}}]}]}`
(perplexity-web §7).
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.protocol.documents import Block
from proxy.protocol.tolerant import items_of, object_of, objects_of, text_of


def fresh_items(block: Block) -> Iterator[dict[str, object]]:
    """The items where something may be new: with patches, only those that a path leads to."""
    steps = objects_of(block.value.get("steps"))
    places = None if block.patched is None else [_place(path) for path in block.patched]
    if places is None or (-1, -1) in places:
        places = [(index, -1) for index in range(len(steps))]
    for step, item in dict.fromkeys(places):
        items = objects_of(steps[step].get("items")) if 0 <= step < len(steps) else []
        yield from items if item < 0 else items[item : item + 1]


def _place(path: str) -> tuple[int, int]:
    """(step, item) that a patch path leads to; -1 stands for all of them."""
    parts = path.split("/")[1:]
    if len(parts) < 2 or parts[0] != "steps" or not parts[1].isdecimal():
        return (-1, -1) if parts[:1] in ([], ["steps"]) else (-2, -1)
    if len(parts) < 4 or parts[2] != "items" or not parts[3].isdecimal():
        return int(parts[1]), -1
    return int(parts[1]), int(parts[3])


def item_queries(item: dict[str, object]) -> list[object]:
    return items_of(_payload(item, "queries_payload").get("queries"))


def item_sources(item: dict[str, object]) -> list[object]:
    return items_of(_payload(item, "sources_payload").get("sources"))


def item_answer(item: dict[str, object]) -> dict[str, object] | None:
    """`{text, chunks}` of an item that holds the answer, None for any other."""
    payload = _payload(item, "text_payload")
    variant = payload.get("variant")
    return payload if payload and (variant is None or text_of(variant).lower() == "answer") else None


def _payload(item: dict[str, object], name: str) -> dict[str, object]:
    payload = object_of(item.get("payload"))
    return object_of(payload.get(name)) or object_of(item.get(name))
