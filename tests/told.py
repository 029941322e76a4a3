"""What an upstream's bytes tell of sources, text and marks, counted by nobody of ours.

It shares no code with the parsers that it checks: it looks at every member of every JSON that the
bytes hold, also of JSON in text, and knows of no shape more than the names of two or three members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MARK = re.compile(r"\[\d{1,3}\]")
"""Four digits are a year or a number, and name no source at any upstream."""
_NAMING = ("name", "title", "snippet")


def documents(body: str) -> list[Any]:
    """The JSON of each record of a stream, or the one of a plain body."""
    records = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
    return [json.loads(record) for record in records or [body] if record != "[DONE]"]


def members(value: Any) -> Iterator[Any]:
    """The value and whatever is in it, in the order of the bytes."""
    yield value
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            inside = json.loads(value)
        except ValueError:
            return
        if isinstance(inside, dict | list):
            yield from members(inside)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from members(item)


def pages(value: Any) -> list[str]:
    """Addresses of web results, of cited and of read pages, wherever they stand, as often as told."""
    found: list[str] = []
    for item in members(value):
        if isinstance(item, dict):
            if isinstance(item.get("url"), str) and any(name in item for name in _NAMING):
                found.append(item["url"])
            for name in ("urls", "citations"):
                found += [url for url in item.get(name) or () if isinstance(url, str)]
    return [url.strip() for url in found if url.strip()]


def told(body: str) -> set[str]:
    return {url for document in documents(body) for url in pages(document)}


def numbered(body: str) -> list[str]:
    """The last and longest list of pages: its n-th is what `[n]` means."""
    lists = [
        addresses
        for document in documents(body)
        for item in members(document)
        if isinstance(item, list) and (addresses := [page["url"] for page in item if is_page(page)])
    ]
    longest = max(map(len, lists), default=0)
    return next((addresses for addresses in reversed(lists) if len(addresses) == longest), [])


def is_page(item: Any) -> bool:
    return isinstance(item, dict) and "url" in item and any(name in item for name in _NAMING)


def text(body: str) -> str:
    """The answer or the report: of all that is neither JSON nor the question, what has most marks."""
    texts = (
        item
        for document in documents(body)
        for item in members(document)
        if isinstance(item, str) and item.lstrip()[:2] not in ('{"', "[{") and "[sandbox:" not in item
    )
    return max(texts, key=lambda found: (len(MARK.findall(found)), len(found)))
