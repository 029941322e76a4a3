"""What a Perplexity answer without a result means: HTTP status and body → Refused.

The envelope (perplexity-api §2) is `{"error": {message, type, code}}`, sometimes `{"error": text}`,
FastAPI's `{"detail": …}`, or an edge's HTML page. A message for people is only ever the parsed
`message`, `error_message` or `detail` string, redacted and cut (SPEC 10.8): never a body, never HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from portal.wire.redact import redact
from research.protocol.outcome import Fault, Refused
from research.protocol.wire_json import members, objects, read_object, string

Call = Literal["create", "poll", "cancel"]

LONGEST_MESSAGE = 800
LONGEST_WAIT = 86_400.0
_READ_AT_MOST = 20_000
_RETIRED = (b"chat_completions_not_available", b"agent_api_migration_required")
_ORGANISATION = re.compile(r"(?:organi[sz]ation|project)\W(?:level\W)?(?:api\W)?key")
_TAG = re.compile(r"<\s*[a-zA-Z!/]")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_NO_SUCH_ENDPOINT = (404, 405, 410)
_BY_STATUS = {
    401: Fault.BAD_KEY,
    402: Fault.QUOTA,
    403: Fault.FORBIDDEN,
    404: Fault.GONE,
    408: Fault.OUTAGE,
    425: Fault.OUTAGE,
    429: Fault.RATE_LIMITED,
}
"""Any other 4xx is INVALID, any other status an OUTAGE."""
_BY_CALL: dict[tuple[Call, int], Fault] = {
    **{("create", status): Fault.RETIRED for status in _NO_SUCH_ENDPOINT},
    # The edge gave up waiting: whether the job was made is not known.
    ("create", 504): Fault.LOST,
    ("create", 524): Fault.LOST,
    ("cancel", 400): Fault.TERMINAL,
}


def refusal(call: Call, status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Refused:
    """Why `call` was refused. `status` is any but 2xx; `now` is aware, for dates in Retry-After."""
    parsed = read_object(body) or {}
    message = error_message(parsed)
    fault = _fault(call, status, body, parsed)
    return Refused(fault, message or f"The upstream answered HTTP {status}.", _retry_after(headers, now))


def broken(what: str) -> Refused:
    """A 2xx answer that breaks the contract."""
    return Refused(Fault.BROKEN, f"The upstream's answer {what}.")


def error_message(parsed: Mapping[str, Any]) -> str:
    """The sentence for people in a parsed body or in its `error` member; "" when there is none."""
    places = (members(parsed.get("error")), parsed, members(parsed.get("detail")))
    found = (string(place.get(name)) for place in places for name in ("message", "error_message", "detail"))
    said = next((text for text in found if text.strip()), "")
    if not said:
        said = "; ".join(filter(None, (string(entry.get("msg")) for entry in objects(parsed.get("detail")))))
    return for_people(said)


def for_people(said: str) -> str:
    """Upstream words that may be shown; "" for markup, which no error message is."""
    words = redact(" ".join(said[:_READ_AT_MOST].split()))[:LONGEST_MESSAGE]
    return "" if _TAG.search(words) else words


def _fault(call: Call, status: int, body: bytes, parsed: dict[str, Any]) -> Fault:
    if status in (403, *_NO_SUCH_ENDPOINT) and any(word in body for word in _RETIRED):
        return Fault.RETIRED
    by_call = _BY_CALL.get((call, status))
    if by_call:
        return by_call
    if status == 403 and _ORGANISATION.search(_words(parsed)):
        return Fault.ORGANISATION_KEY
    if status == 429 and "insufficient_quota" in _words(parsed):
        return Fault.QUOTA
    return _BY_STATUS.get(status, Fault.INVALID if 400 <= status < 500 else Fault.OUTAGE)


def _words(parsed: dict[str, Any]) -> str:
    """What the envelope says, for machines and people, in lower case."""
    error = parsed.get("error")
    inner = members(error)
    said = (error, parsed.get("detail"), *(inner.get(name) for name in ("message", "type", "code")))
    return " ".join(string(text, _READ_AT_MOST) for text in said).lower()


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as the upstream asks, given as seconds or as an HTTP date; a day at most."""
    value = next((text for name, text in headers.items() if name.lower() == "retry-after"), "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(value[:64])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return min(max((moment - now).total_seconds(), 0.0), LONGEST_WAIT)
    except (ValueError, TypeError, OverflowError):
        return None
