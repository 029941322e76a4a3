"""Jobs and errors of Perplexity's own API as the `pplx_*` tools tell of them (mcp-deep-research §§2, 4).

For the stdio command without a portal: JSON in, a `Job` or a text for people out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from portal.wire.redact import redact
from portal.wire.tools import ToolResult, refused
from research.protocol import wire_agent
from research.protocol.mcp_deep import STATUSES, Job, JobSource
from research.protocol.outcome import Ended, Finished, Found
from research.protocol.refusals import error_message
from research.protocol.wire_json import (
    content_text,
    count_of,
    dollars,
    line,
    members,
    objects,
    read_object,
    string,
    strings,
)

LONGEST = 800
"""Characters of an upstream's words that are passed on."""
FIRST = 400
RETIRED = ("chat_completions_not_available", "agent_api_migration_required")
_AGENT_STATUS: Mapping[str, str] = {
    "queued": "CREATED",
    "in_progress": "IN_PROGRESS",
    "completed": "COMPLETED",
    "incomplete": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "FAILED",
}
NO_KEY = refused(
    "no Perplexity API key is configured. Set PERPLEXITY_API_KEY in the environment of this server, where"
    " your client's configuration names its command, and start the client anew.",
    code="invalid_api_key",
)


def read_sonar_job(job: Mapping[str, Any]) -> Job:
    """One job of the legacy asynchronous API (perplexity-api §3.3); whatever is missing is left open."""
    response = members(job.get("response"))
    choice = next(iter(objects(response.get("choices"))), {})
    usage = members(response.get("usage"))
    status = string(job.get("status")).upper()
    searches = usage.get("num_search_queries")
    return Job(
        id=line(job.get("id"), 200),
        status=status if status in STATUSES else "IN_PROGRESS",
        model=line(response.get("model") or job.get("model"), 120),
        created_at=_moment(job.get("created_at")),
        started_at=_moment(job.get("started_at")),
        completed_at=_moment(job.get("completed_at")),
        text=content_text(members(choice.get("message")).get("content")) or None,
        search_results=tuple(
            JobSource(string(page.get("url")), line(page.get("title"), 300), line(page.get("date"), 40))
            for page in objects(response.get("search_results"))
        ),
        citations=tuple(strings(response.get("citations"))),
        queries=None if searches is None else count_of(searches),
        cost=dollars(members(usage.get("cost")).get("total_cost")),
        error=error_message(job),
        cut_short="max output tokens" if choice.get("finish_reason") == "length" else "",
    )


def read_agent_job(body: bytes, now: datetime) -> Job | None:
    """A background response of the Agent API (perplexity-api §5); None when it is none."""
    job = read_object(body)
    if job is None or string(job.get("status")) not in _AGENT_STATUS:
        return None
    told = Job(
        id=line(job.get("id"), 200),
        status=_AGENT_STATUS[string(job["status"])],
        model=line(job.get("model"), 120),
        created_at=_moment(job.get("created_at")),
        completed_at=_moment(job.get("completed_at")),
    )
    snapshot = wire_agent.parse_snapshot(200, {}, body, now)
    if isinstance(snapshot, Finished):
        return _finished(told, snapshot)
    if isinstance(snapshot, Ended):
        return _ended(told, snapshot)
    return told


def refusal_of(
    status: int, headers: Mapping[str, str], body: bytes, *, method: str, path: str, of_job: bool
) -> ToolResult:
    """What to say to an answer that is no success (§4)."""
    parsed = read_object(body) or {}
    said = error_message(parsed)
    if status == 401:
        return refused("the API key was rejected (401). Check PERPLEXITY_API_KEY.", code="invalid_api_key")
    if is_retired(status, body):
        return refused(
            "this Perplexity API was retired (403): switch to another backend. The Agent API, or a Sonde"
            " portal with SONDE_URL and SONDE_API_KEY, does the same.",
            code="retired",
        )
    if status == 403:
        return refused(f"Perplexity refused this account (403). {said}".strip(), code="forbidden")
    if status == 404 and of_job:
        return refused(
            "there is no such job (404). The id may be wrong, or the job older than seven days.",
            code="not_found",
        )
    if status == 429:
        wait = headers.get("retry-after", "")
        hint = f"Wait {wait} seconds" if wait.isdigit() else "Wait a minute"
        return refused(f"rate limited (429). {hint} and try again.", code="rate_limit_exceeded")
    detail = (said or redact(body[: LONGEST * 4].decode("utf-8", "replace")))[:LONGEST]
    return refused(f"Perplexity answered {status} to {method} {path}: {detail}", code="upstream_error")


def is_retired(status: int, body: bytes) -> bool:
    return status == 403 and any(word.encode() in body for word in RETIRED)


def no_json(body: bytes) -> ToolResult:
    shown = redact(body[: FIRST * 4].decode("utf-8", "replace"))[:FIRST]
    return refused(f"Perplexity's answer is not JSON. It begins: {shown}", code="upstream_error")


def timed_out(seconds: float, *, starting: bool) -> ToolResult:
    """A network that gave no answer must not look like research that takes long."""
    what = (
        "The job may have been created all the same: look at pplx_deep_research_list before starting again."
        if starting
        else "It is safe to try again."
    )
    return refused(
        f"Perplexity did not respond within {seconds:.0f} s. This is a problem of the network or the"
        f" provider, not of the research taking long. {what}",
        code="timeout",
    )


def unreachable(method: str, path: str) -> ToolResult:
    return refused(f"network error: no connection for {method} {path}. Try again.", code="network_error")


def _finished(told: Job, done: Finished) -> Job:
    return replace(
        told,
        status="COMPLETED",
        model=done.model or told.model,
        text=done.text,
        search_results=tuple(_source(found) for found in done.found),
        queries=len(done.queries) or None,
        cost=done.usage.cost,
        cut_short="" if done.complete else (done.reason or "unknown reason").replace("_", " "),
    )


def _ended(told: Job, ended: Ended) -> Job:
    if ended.partial is not None:
        return _finished(told, ended.partial)
    return Job(id=told.id, status="FAILED", created_at=told.created_at, error=ended.message)


def _source(found: Found) -> JobSource:
    return JobSource(found.url, found.title, found.date or "")


def _moment(value: object) -> datetime | None:
    """Unix seconds."""
    seconds = count_of(value)
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < 10**11 else None
