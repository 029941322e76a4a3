"""The error tree: what every door can answer, and how it looks on the wire.

    Problem                    an answer that is not 2xx, in the OpenAI envelope
    ├── BadRequest        400  the request is malformed; `param` names the field
    ├── Unauthenticated   401  no key, or one that does not open anything
    ├── Forbidden         403  a real key, without the right
    ├── NotFound          404  unknown, foreign, deleted: all the same
    ├── MethodNotAllowed  405
    ├── TooSlow           408  the body did not arrive in time; SDKs send it again
    ├── TooLarge          413
    ├── NotJson           415
    ├── Conflict          422  an idempotency key with other parameters
    ├── RateLimited       429  come back after `retry_after` seconds
    └── Unavailable       503  ours to mend; nothing was committed

The envelope always has its four keys (openai-compat §1.3). Only `insufficient_quota` and
`rate_limit_exceeded` are finer codes for money and limits (SPEC 10.7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Problem(Exception):
    """One clear error. `message` is for people and never holds a secret or a stack trace."""

    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    status = 500
    type = "server_error"

    def __str__(self) -> str:
        return self.message

    def body(self) -> dict[str, dict[str, str | None]]:
        return {"error": {"code": self.code, "message": self.message, "type": self.type, "param": self.param}}

    def encoded(self) -> bytes:
        return json.dumps(self.body(), ensure_ascii=False).encode()


class BadRequest(Problem):
    status = 400
    type = "invalid_request_error"


class Unauthenticated(Problem):
    status = 401
    type = "invalid_request_error"


class Forbidden(Problem):
    status = 403
    type = "permission_error"


class NotFound(Problem):
    status = 404
    type = "invalid_request_error"


class MethodNotAllowed(Problem):
    status = 405
    type = "invalid_request_error"


class TooSlow(Problem):
    status = 408
    type = "invalid_request_error"


class TooLarge(Problem):
    status = 413
    type = "invalid_request_error"


class NotJson(Problem):
    status = 415
    type = "invalid_request_error"


class Conflict(Problem):
    status = 422
    type = "invalid_request_error"


class RateLimited(Problem):
    status = 429
    type = "rate_limit_error"


class Unavailable(Problem):
    status = 503
    type = "server_error"


def unauthenticated() -> Unauthenticated:
    """Missing, malformed, unknown, revoked and expired keys all get this same answer."""
    return Unauthenticated(
        "Incorrect API key provided. Send it as 'Authorization: Bearer sonde_…'.",
        code="invalid_api_key",
        headers={"WWW-Authenticate": 'Bearer realm="sonde"'},
    )


def not_found() -> NotFound:
    """The one answer for what does not exist, was deleted, or belongs to somebody else."""
    return NotFound("No response with this id exists.", code="not_found")


def no_response() -> NotFound:
    """The same where the id is part of the address (proxy-contract §8.8)."""
    return NotFound("No response with this id exists.", param="response_id", code="not_found")


def rate_limited(retry_after: int) -> RateLimited:
    """`retry_after` in whole seconds; kept to 1..60, which every SDK honours (agent-api §7)."""
    return RateLimited(
        "Too many requests: wait and try again.",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(min(max(retry_after, 1), 60))},
    )


def unavailable(message: str = "The service is busy: try again in a moment.") -> Unavailable:
    return Unavailable(message, headers={"Retry-After": "2"})
