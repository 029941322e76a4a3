"""Which pages of other origins may call the APIs (CORS_ORIGINS): by key only, never by cookie."""

from __future__ import annotations

from collections.abc import Collection

METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
# The wildcard never covers Authorization, so that one is named.
ALLOWED_HEADERS = "Authorization, *"
SHOWN_HEADERS = (
    "x-request-id, retry-after, idempotent-replayed, x-should-retry, x-ratelimit-limit-requests, "
    "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-sonde-dropped, x-sonde-sandbox, "
    "x-sonde-experimental"
)
DAY = 86_400


def cors_headers(origin: str | None, allowed: Collection[str], *, preflight: bool = False) -> dict[str, str]:
    """Headers to add to an answer; none while no origin is configured."""
    if not allowed:
        return {}
    if origin is None or (origin not in allowed and "*" not in allowed):
        return {"Vary": "Origin"}
    granted = {"Vary": "Origin", "Access-Control-Allow-Origin": origin}
    if preflight:
        return granted | {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(DAY),
        }
    return granted | {"Access-Control-Expose-Headers": SHOWN_HEADERS}
