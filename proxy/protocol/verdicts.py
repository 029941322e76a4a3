"""Judges the upstream's HTTP answers, and says what each fault means for whom.

Cloudflare's page is told from Perplexity's own refusal whatever its status, since only one of them
says anything about the session (perplexity-web §12, proxy-contract §17.24).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from portal.wire.errors import Problem, RateLimited
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.tolerant import detail_of, object_of
from proxy.protocol.web_frame import read_json

Health = Literal["expired", "blocked", "limited"]
LONGEST_WAIT = 60
"""Seconds: the upstream's own `Retry-After` is obeyed up to here."""
HEAD_BYTES = 64 * 1024
"""How much of a body is looked at."""
_CHALLENGE = (b"just a moment...", b"attention required! | cloudflare", b"challenge-platform", b"__cf_chl_")


def judge(status: int, headers: Mapping[str, str], body: bytes = b"") -> Fault | None:
    """None for an answer to read on; `headers` have lower-case names, `body` may be its beginning."""
    html = _is_html(headers, body)
    challenged = headers.get("cf-mitigated", "").lower() == "challenge" or (html and _is_challenge(body))
    if challenged or (html and (status == 403 or 200 <= status < 300)):
        return Fault(FaultKind.BLOCKED)
    if 200 <= status < 300:
        return None
    kind = _kind(status)
    waits = kind in (FaultKind.RATE_LIMITED, FaultKind.UNAVAILABLE)
    wait = _retry_after(headers) if waits else None
    return Fault(kind, "" if html else _detail(body), wait, is_open=status in _GAVE_UP)


def _kind(status: int) -> FaultKind:
    if status >= 500 or status == 408:
        return FaultKind.UNAVAILABLE
    # A redirect leads to a log-in page, or away from Perplexity.
    return _KINDS.get(status, FaultKind.FORBIDDEN if status < 400 else FaultKind.REJECTED)


_GAVE_UP = (504, 524)
_KINDS = {401: FaultKind.SIGNED_OUT, 403: FaultKind.FORBIDDEN, 429: FaultKind.RATE_LIMITED}


def _is_html(headers: Mapping[str, str], body: bytes) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind:
        return kind in ("text/html", "application/xhtml+xml")
    return body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _is_challenge(body: bytes) -> bool:
    head = body[:HEAD_BYTES].lower()
    return any(mark in head for mark in _CHALLENGE)


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Whole seconds, at most `LONGEST_WAIT`; the date form is left alone, for want of a clock."""
    value = headers.get("retry-after", "").strip()
    return min(int(value), LONGEST_WAIT) if value.isascii() and value.isdecimal() else None


def _detail(body: bytes) -> str:
    """The upstream's own sentence (SPEC 10.8): never the body itself."""
    value = object_of(read_json(body[:HEAD_BYTES]))
    error = value.get("error")
    nested = object_of(error)
    detail = value.get("detail")
    return detail_of(value.get("message"), value.get("error_message"), nested.get("message"), detail, error)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault means: for the account, for the request, for the caller.

    `health`: what the account is now; None leaves it. `check`: ask the session endpoint before
    believing it. While nothing was sent to the client: `elsewhere`, another account may do better;
    `anew`, a continuation may do better with its whole conversation (perplexity-web §4.3).
    """

    health: Health | None = None
    check: bool = False
    elsewhere: bool = True
    anew: bool = False
    message: str = "The upstream did not answer properly."


EFFECTS: Mapping[FaultKind, Effect] = {
    FaultKind.QUOTA: Effect("limited", message="No account has any use of this model left."),
    FaultKind.SIGNED_OUT: Effect(
        "expired", check=True, message="The upstream session is signed out: an administrator must renew it."
    ),
    FaultKind.BLOCKED: Effect("blocked", message="The upstream's network protection refuses us for now."),
    FaultKind.FORBIDDEN: Effect(check=True, anew=True, message="The upstream refused the request."),
    FaultKind.RATE_LIMITED: Effect(
        "limited", message="The upstream limits its requests: wait and try again."
    ),
    FaultKind.REJECTED: Effect(
        elsewhere=False, anew=True, message="The upstream does not accept this request."
    ),
    FaultKind.UNAVAILABLE: Effect(message="The upstream is not available."),
    FaultKind.UNREACHABLE: Effect(message="The upstream cannot be reached."),
    FaultKind.TIMED_OUT: Effect(elsewhere=False, message="The upstream did not answer in time."),
    FaultKind.REFUSED: Effect(anew=True, message="The upstream failed to answer."),
    FaultKind.BROKEN: Effect(message="The upstream sent an answer that cannot be read."),
    FaultKind.CUT: Effect(message="The upstream broke off its answer."),
    FaultKind.EMPTY: Effect(elsewhere=False, anew=True, message="The upstream gave an empty answer."),
    FaultKind.REWRITTEN: Effect(elsewhere=False, message="The upstream took back what it had answered."),
    FaultKind.STOPPED: Effect(elsewhere=False, message="The answer was stopped upstream."),
}
_FUTILE = frozenset({FaultKind.SIGNED_OUT, FaultKind.BLOCKED, FaultKind.FORBIDDEN, FaultKind.REJECTED})
"""An SDK that repeats the request by itself gains nothing (openai-compat §1.3)."""


class UpstreamFailed(Problem):
    """502: not ours, not the caller's."""

    status = 502
    type = "upstream_error"


def problem_of(fault: Fault) -> Problem:
    """What the caller is told when no account could answer."""
    effect = EFFECTS[fault.kind]
    message = f"{effect.message} ({fault.detail})" if fault.detail else effect.message
    futile = {"x-should-retry": "false"} if fault.kind in _FUTILE else {}
    if fault.param:
        return UpstreamFailed(message, param=fault.param, headers=futile)
    if fault.kind is FaultKind.QUOTA:
        return out_of_uses(message)
    if fault.kind is FaultKind.RATE_LIMITED:
        wait = str(max(1, fault.retry_after or 1))
        return RateLimited(message, code="rate_limit_exceeded", headers={"Retry-After": wait})
    return UpstreamFailed(message, code="upstream_error", headers=futile)


def out_of_uses(message: str = EFFECTS[FaultKind.QUOTA].message) -> RateLimited:
    """No account has any use left (SPEC 10.23). Known before the upstream is asked, for all but `auto`."""
    return RateLimited(message, code="insufficient_quota", headers={"x-should-retry": "false"})
