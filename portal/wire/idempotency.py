"""Idempotency keys: how a request carries one, and what two requests under one are told (agent-api §6)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from portal.wire.errors import Conflict
from portal.wire.fields import Fields

LONGEST_KEY = 200
PARAM = "idempotency_key"
REPLAYED = {"Idempotent-Replayed": "true"}
"""The header of an answer to a request that had been made before."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def read_idempotency_key(body: Fields, headers: Mapping[str, str]) -> str | None:
    """Out of the body, or of the headers by lower-case name. Raises BadRequest for a bad one, and for two."""
    inside, outside = body.text(PARAM, longest=LONGEST_KEY), headers.get("idempotency-key")
    if inside is not None and outside is not None and inside != outside:
        raise body.refuse(PARAM, "differs from the header Idempotency-Key")
    key = inside if inside is not None else outside
    if key is None:
        return None
    if not key.strip() or len(key) > LONGEST_KEY or _CONTROL.search(key):
        raise body.refuse(PARAM, f"must be 1 to {LONGEST_KEY} printable characters")
    return key


def reused() -> Conflict:
    """422, which no SDK repeats by itself (SPEC 10.7)."""
    return Conflict(
        "This idempotency key was used with other parameters: use a new key.",
        param=PARAM,
        code="idempotency_key_reused",
    )
