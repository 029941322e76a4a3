"""Files inside requests: kept as digests, so that a job's body stays small and still says what came."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

_HOLDERS = ("file_data", "image_url", "file_url", "url")


def without_bytes(value: Any) -> Any:
    """`value` with `sha256:<hex>` in the place of every file that it holds in base64."""
    if isinstance(value, list):
        return [without_bytes(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _digest(entry) if name in _HOLDERS and isinstance(entry, str) else without_bytes(entry)
        for name, entry in value.items()
    }


def attached_in(value: Any) -> Iterator[str]:
    """Addresses and digests of a body from `without_bytes`, in order."""
    if isinstance(value, list):
        for entry in value:
            yield from attached_in(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            if name in _HOLDERS and isinstance(entry, str):
                yield entry
            else:
                yield from attached_in(entry)


def _digest(text: str) -> str:
    """An address stays; what is no base64 either is told as it is, cut."""
    if text.startswith(("https://", "http://")):
        return text
    data = text.partition(";base64,")[2] if text.startswith("data:") else text
    try:
        return f"sha256:{sha256(base64.b64decode(data, validate=True)).hexdigest()}"
    except binascii.Error:
        return text[:100]
