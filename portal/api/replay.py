"""How a caller asks for an answer as a stream, from its start or from an event on (openai-compat §3.5)."""

from __future__ import annotations

from portal.api.routes import Call
from portal.wire.errors import BadRequest

WHOLE = -1
LONGEST_NUMBER = 9


def starting_after(call: Call) -> int | None:
    """The number after which a stream is asked for, `WHOLE` for all of it; None when none is asked for.

    Raises BadRequest with param stream or starting_after.
    """
    asked = call.query.get("stream", "").lower()
    if asked not in ("", "true", "false", "1", "0"):
        raise BadRequest("stream must be true or false", param="stream")
    if asked not in ("true", "1") or call.method == "HEAD":
        return None
    number = call.query.get("starting_after", "")
    if not number:
        return WHOLE
    if not (number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER):
        raise BadRequest("starting_after must be the sequence number of an event", param="starting_after")
    return int(number)
