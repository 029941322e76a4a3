"""The ways in which one HTTP exchange goes wrong, each by name, and what it puts on the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate

from starlette.responses import Response

from sandbox.wire import CutResponse, DroppedConnection, refusal, reply

RETIRED = (
    "Sonar is now the Agent API. Use /v1/responses instead of /v1/sonar. "
    "Migrate here: https://docs.example.com/agent-api/migrate"
)
MIGRATED = "This account uses the Agent API and is refused here (agent_api_migration_required)."
ORGANIZATION = "Organization-level API keys cannot be used here. Create a project API key."
BLOCKED = "This API key has been blocked. Contact support."
WRONG_KEY = "Invalid API key provided. You can find your API key in the account settings."
NO_CREDIT = "Your credit balance is exhausted. Add credit to continue."
BUSY = "Request rate limit exceeded, please try again later."
EDGE_PAGE = (
    b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head>"
    b"<body><center><h1>502 Bad Gateway</h1></center><hr><center>cloudflare</center></body></html>"
)
CHALLENGE_PAGE = (
    b"<!DOCTYPE html><html><head><title>Just a moment...</title></head>"
    b"<body><div id='challenge-running'>Checking your browser</div></body></html>"
)
_SOME_ANSWER = (
    b'{"id":"resp_00000000-0000-4000-8000-000000000000","object":"response","status":"queued","output":[]}'
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a fault may look at: the answer it replaces, if there was one, and the asked-for Retry-After."""

    answer: bytes | None
    retry_after: str | None
    now: float

    @property
    def whole(self) -> bytes:
        return self.answer or _SOME_ANSWER


@dataclass(frozen=True, slots=True)
class Fault:
    """One named failure. `legacy_only` faults bite only on the Sonar paths unless the marker names an API."""

    meaning: str
    answer: Callable[[Exchange], Response]
    legacy_only: bool = False


def _gateway(status: int, kind: str, message: str) -> Callable[[Exchange], Response]:
    return lambda _: refusal(status, kind, message)


def _page(status: int, body: bytes) -> Callable[[Exchange], Response]:
    return lambda _: Response(body, status, media_type="text/html")


def wait_header(exchange: Exchange) -> dict[str, str]:
    """`Retry-After` in seconds or as a date, when it was asked for."""
    asked = exchange.retry_after
    if asked is None:
        return {}
    return {"retry-after": formatdate(exchange.now + 2, usegmt=True) if asked == "date" else asked}


def _rate_limited(exchange: Exchange) -> Response:
    response = refusal(429, "request_rate_limit_exceeded", BUSY)
    response.headers.update(wait_header(exchange))
    return response


def _truncated(exchange: Exchange) -> Response:
    whole = exchange.whole
    return Response(whole[: max(1, len(whole) // 2)], media_type="application/json")


def _unprocessable(_: Exchange) -> Response:
    detail = [{"loc": ["body", "request"], "msg": "Input should be a valid request", "type": "value_error"}]
    return reply(422, {"detail": detail})


def _migrated_by_code(_: Exchange) -> Response:
    error = {"message": MIGRATED, "type": "forbidden", "code": "agent_api_migration_required"}
    return reply(403, {"error": error})


FAULTS: Mapping[str, Fault] = {
    "retired": Fault(
        "403 chat_completions_not_available: the endpoint was retired (§0.1)",
        _gateway(403, "chat_completions_not_available", RETIRED),
        legacy_only=True,
    ),
    "migration-required": Fault(
        "403 with type agent_api_migration_required: the second wording of the retirement (§0.1)",
        _gateway(403, "agent_api_migration_required", MIGRATED),
        legacy_only=True,
    ),
    "migration-required-code": Fault(
        "the second wording with the identifier in `code` (its place is not recorded, §10)",
        _migrated_by_code,
        legacy_only=True,
    ),
    "migration-required-text": Fault(
        "the second wording as a bare error string",
        lambda _: reply(403, {"error": MIGRATED}),
        legacy_only=True,
    ),
    "org-key": Fault(
        "403: an organisation-level key where a project key is needed (§0.4)",
        _gateway(403, "forbidden", ORGANIZATION),
    ),
    "blocked": Fault("403: the key is blocked", _gateway(403, "forbidden", BLOCKED)),
    "challenge": Fault("403 with the edge's HTML challenge page", _page(403, CHALLENGE_PAGE)),
    "bad-key": Fault("401 invalid_api_key", _gateway(401, "invalid_api_key", WRONG_KEY)),
    "no-credit": Fault("402: out of credit (a guess, §2)", _gateway(402, "payment_required", NO_CREDIT)),
    "invalid": Fault(
        "400 invalid_request", _gateway(400, "invalid_request", "validation failed: simulated refusal")
    ),
    "unprocessable": Fault("422 in FastAPI's shape", _unprocessable),
    "not-found": Fault("404 not_found", _gateway(404, "not_found", "resource not found")),
    "too-large": Fault(
        "413 payload_too_large", _gateway(413, "payload_too_large", "request body is too large")
    ),
    "connector": Fault(
        "424 external_connector_error",
        _gateway(424, "external_connector_error", "could not reach the MCP server"),
    ),
    "rate-limit": Fault("429; combine with retry-after for the header", _rate_limited),
    "server-error": Fault("500 internal_error", _gateway(500, "internal_error", "internal server error")),
    "bare-error": Fault(
        '500 with the body {"error":"text"}', lambda _: reply(500, {"error": "something went wrong upstream"})
    ),
    "bad-gateway": Fault("502 with the edge's HTML page", _page(502, EDGE_PAGE)),
    "unavailable": Fault("503 without a body", lambda _: Response(status_code=503)),
    "gateway-timeout": Fault(
        "504 gateway_timeout", _gateway(504, "gateway_timeout", "the gateway timed out")
    ),
    "truncated": Fault("200 whose JSON stops half way, with a fitting content-length", _truncated),
    "not-json": Fault(
        "200 with an HTML page", _page(200, b"<html><body>Welcome to the network</body></html>")
    ),
    "not-object": Fault("200 with a JSON list", lambda _: reply(200, [])),
    "empty-body": Fault("200 without a byte", lambda _: Response(b"", media_type="application/json")),
    "cut": Fault(
        "200, then the connection closes half way through the body",
        lambda exchange: CutResponse(exchange.whole),
    ),
    "drop": Fault("the connection closes without an answer", lambda _: DroppedConnection()),
}
