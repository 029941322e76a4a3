"""Errors as Perplexity's gateway tells them, for the paths that clients of its Sonar APIs call.

    {"error": {"message": str, "type": str, "code": int, "param"?: str}}

`code` is the HTTP status, `type` the machine's word (perplexity-api §2, SPEC 4.5). Unknown paths and
wrong methods beneath these paths are told so too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from portal.wire.errors import Problem

PATHS = ("/async", "/chat/completions", "/v1/async", "/v1/sonar")
"""Each claims what lies beneath it. `/chat` itself is a page."""
_OF_STATUS: Mapping[int, str] = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "request_rate_limit_exceeded",
    502: "bad_gateway",
    503: "service_unavailable",
    504: "gateway_timeout",
}
_OF_CODE: Mapping[str, str] = {
    "idempotency_key_reused": "idempotency_key_reused",
    "insufficient_quota": "insufficient_quota",
    "model_not_found": "invalid_model",
}
"""Where our own code says more than the status."""


def is_gateway_path(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in PATHS)


def gateway_body(problem: Problem) -> dict[str, dict[str, str | int]]:
    kind = _OF_CODE.get(problem.code or "") or _OF_STATUS.get(problem.status, "internal_error")
    error: dict[str, str | int] = {"message": problem.message, "type": kind, "code": problem.status}
    named = problem.param if problem.status != 404 else None  # an address has no fields
    return {"error": error | {"param": named} if named else error}


def encoded(problem: Problem, path: str) -> bytes:
    """The body that answers `problem` at `path`: the gateway's shape, or the OpenAI envelope."""
    if not is_gateway_path(path):
        return problem.encoded()
    return json.dumps(gateway_body(problem), ensure_ascii=False).encode()
