"""Who is asking. Any key that begins `pplx-` is an account; some beginnings bring trouble.

A part after the first dot does not count: `pplx-team.old` and `pplx-team.new` are two keys of one account.
"""

from __future__ import annotations

from starlette.requests import Request

from sandbox.faults import BLOCKED, BUSY, MIGRATED, NO_CREDIT, ORGANIZATION, RETIRED, WRONG_KEY
from sandbox.wire import refusal
from sandbox.world import Mode, Refused

TROUBLES = {
    "pplx-bad": (401, "invalid_api_key", WRONG_KEY),
    "pplx-org": (403, "forbidden", ORGANIZATION),
    "pplx-blocked": (403, "forbidden", BLOCKED),
    "pplx-broke": (402, "payment_required", NO_CREDIT),
    "pplx-busy": (429, "request_rate_limit_exceeded", BUSY),
}


def _retired() -> Refused:
    return Refused(refusal(403, "chat_completions_not_available", RETIRED))


def account_of(request: Request) -> str:
    """The account behind the request's key; raises Refused (perplexity-api §2)."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.startswith("pplx-"):
        raise Refused(refusal(401, "invalid_api_key", WRONG_KEY))
    for beginning, trouble in TROUBLES.items():
        if key.startswith(beginning):
            raise Refused(refusal(*trouble))
    return key.partition(".")[0]


def check_sonar_lives(account: str, mode: Mode) -> None:
    """Refuses the Sonar paths where they were retired, in the wording of the mode (perplexity-api §0)."""
    if mode == "legacy-retired" or account.startswith("pplx-retired"):
        raise _retired()
    if mode == "agent":
        raise Refused(refusal(403, "agent_api_migration_required", MIGRATED))
