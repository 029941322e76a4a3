"""How much of a list one answer shows."""

from __future__ import annotations

from portal.api.lean import Call
from portal.wire.errors import BadRequest

LIST_LIMIT = 20
LONGEST_LIST = 100


def limit_of(call: Call) -> int:
    """The query's `limit`. Raises BadRequest."""
    text = call.query.get("limit", str(LIST_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= LONGEST_LIST):
        raise BadRequest(f"limit must be a whole number from 1 to {LONGEST_LIST}", param="limit")
    return int(text)
