"""What lists are asked by: `limit` and `order` (openai-compat §3.7)."""

from __future__ import annotations

from portal.api.routes import Call
from portal.wire.errors import BadRequest

PAGE = 20
LONGEST_PAGE = 100


def limit_of(call: Call) -> int:
    """From 1 to 100, 20 unless told. Raises BadRequest."""
    text = call.query.get("limit", str(PAGE))
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= LONGEST_PAGE):
        raise BadRequest(f"limit must be a whole number from 1 to {LONGEST_PAGE}", param="limit")
    return int(text)


def is_backwards(call: Call) -> bool:
    """The last first, unless `order=asc`. Raises BadRequest."""
    order = call.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest("order must be asc or desc", param="order")
    return order == "desc"
