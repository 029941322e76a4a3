"""The idempotency key of a Responses request, and what tells the same request from another one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from portal.wire.fields import Fields
from portal.wire.idempotency import PARAM, read_idempotency_key
from proxy.protocol.responses import IGNORED

WITHOUT_EFFECT = frozenset({PARAM, "metadata", "stream", "stream_options", "user", *IGNORED})
"""Members that leave the print as it is: the answer is made the same without them (SPEC 10.7)."""


@dataclass(frozen=True, slots=True)
class Once:
    """A request that is to be answered once. `fingerprint` is a SHA-256 in hex."""

    key: str
    fingerprint: str


def read_once(body: Fields, headers: Mapping[str, str]) -> Once | None:
    """None without a key. Raises BadRequest for a bad key, and for a response that would not be kept."""
    key = read_idempotency_key(body, headers)
    if key is None:
        return None
    if body.flag("store") is False:
        raise body.refuse(PARAM, "needs a response that is stored: leave out store, or the key")
    return Once(key, fingerprint(body))


def fingerprint(body: Fields) -> str:
    """Over every member that has an effect, in whatever order they come; null is as good as absent."""
    effective = {
        name: value for name, value in body.values.items() if value is not None and name not in WITHOUT_EFFECT
    }
    return sha256(json.dumps(effective, sort_keys=True).encode()).hexdigest()
