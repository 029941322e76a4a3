"""Runs as the research tools tell of them (agent-api §9): views in, tool results out.

Every answer says what to do next, for a model that has only this text to go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from portal.wire.amounts import json_number
from portal.wire.errors import BadRequest
from portal.wire.ids import response_id
from portal.wire.tools import Json, Link, ToolResult
from research.protocol.answer import ReportView, RunView, build_response
from research.protocol.mcp_pages import pages_of
from research.protocol.mcp_tools import REPORT_URI
from research.protocol.outcome import Source

SHORTEST_WAIT, LONGEST_WAIT = 15, 300
"""Seconds between two looks at a run (agent-api §9.1)."""
SANDBOX = "Sandbox: this is simulated. No research was made."


def first_wait(budget: int) -> int:
    """Seconds until a run with this time budget is worth a first look."""
    return min(max(round(budget / 6), SHORTEST_WAIT), LONGEST_WAIT)


def next_wait(view: RunView, budget: int, now: datetime) -> int:
    """The same for a run that is under way; 0 when there is nothing to wait for."""
    if view.is_terminal:
        return 0
    left = view.usual_seconds - (now - view.created_at).total_seconds()
    return min(max(round(left), SHORTEST_WAIT), first_wait(budget))


def handle(view: RunView, price: Decimal, wait: int, now: datetime) -> ToolResult:
    """What a start gives. `price` is reserved for as long as the run is under way."""
    name = response_id(view.id)
    told = {
        "id": name,
        "status": _status(view),
        "preset": view.preset,
        "credits_reserved": json_number(Decimal(0) if view.is_terminal else price),
        **_next(wait, now, _after_start(view, name, wait, now)),
        "sandbox": view.sandbox,
    }
    return ToolResult(_lines(f"Run {name} is {told['status']}.", told["next_step"], _label(view)), told)


def reading(view: RunView, page: int, wait: int, now: datetime) -> ToolResult:
    """What `get_research` gives. Raises BadRequest for a page that the report does not have."""
    report = view.report
    if report is None:
        if page > 1:
            raise BadRequest("page must be 1: this run has no report yet.", param="page")
        return _without_report(view, wait, now)
    pages = pages_of(report.text)
    if page > len(pages):
        raise BadRequest(f"page must be from 1 to {len(pages)}.", param="page")
    return _page(view, report, pages, page, now)


def listing(views: Sequence[RunView], has_more: bool) -> ToolResult:
    runs = [_summary(view) for view in views]
    following = runs[-1]["id"] if has_more and runs else None
    told = {"runs": runs, "has_more": has_more, "next_after": following}
    if not runs:
        return ToolResult("There are no such runs.", told)
    rows = [f"{run['id']}  {run['status']}  {run['preset']}  {run['title']}" for run in runs]
    more = f"There are more: call list_research with after {following!r}." if following else ""
    return ToolResult(_lines(*rows, more), told)


def cancelling(view: RunView) -> ToolResult:
    name = response_id(view.id)
    step = f"Call get_research with id {name!r} to see that it has stopped."
    return ToolResult(
        f"Run {name} is being stopped. {step}", {"id": name, "status": "cancelling", "next_step": step}
    )


def report_link(view: RunView) -> Link:
    name = response_id(view.id)
    return Link(REPORT_URI.format(id=name), f"{name}.md", view.title or name)


def report_markdown(view: RunView) -> str | None:
    """The resource behind `report_link`: the whole report as it is stored; None without one."""
    return view.report.text if view.report else None


def _without_report(view: RunView, wait: int, now: datetime) -> ToolResult:
    name = response_id(view.id)
    step = _after_end(view) if view.is_terminal else _look_again(name, wait, now)
    told: Json = {
        "id": name,
        "status": _status(view),
        "preset": view.preset,
        "page": None,
        "page_count": None,
        "next_page": None,
        "text": None,
        **_next(wait, now, step),
        "sandbox": view.sandbox,
    }
    if view.status == "failed":
        told["error"] = {"code": view.error_code or None, "message": view.error_message}
    notes = map(str, view.notes)
    return ToolResult(_lines(f"Run {name} is {told['status']}.", step, _label(view), *notes), told)


def _page(view: RunView, report: ReportView, pages: list[str], page: int, now: datetime) -> ToolResult:
    name, count = response_id(view.id), len(pages)
    following = page + 1 if page < count else None
    step = (
        f"Call get_research with id {name!r} and page {following} for the next page."
        if following
        else "This was the last page of the report: answer the question with it, and name its sources."
    )
    told: Json = {
        "id": name,
        "status": view.status,
        "preset": view.preset,
        "page": page,
        "page_count": count,
        "next_page": following,
        "text": pages[page - 1],
        **_next(0, now, step),
        "sandbox": view.sandbox,
    }
    if page == 1:
        told |= _about(view, report)
    if view.status == "incomplete":
        told["incomplete_reason"] = report.incomplete_reason
    head = f"Report of run {name}, {view.status}, page {page} of {count}."
    said = [f"> {notice}" for notice in (*report.notices, *view.notes)] if page == 1 else []
    sources = [_sources(report.sources)] if page == 1 else []
    text = _lines(head, _cut_short(view), _label(view), *said, "---", pages[page - 1], "---", *sources, step)
    return ToolResult(text, told, (report_link(view),))


def _about(view: RunView, report: ReportView) -> Json:
    usage = build_response(view)["usage"]
    del usage["pocket_search"]["research_receipt"]
    return {
        "sources": [
            {"id": source.number, "title": source.title, "url": source.url, "provenance": source.provenance}
            for source in report.sources
        ],
        "checks": report.checks,
        "notices": [str(notice) for notice in (*report.notices, *view.notes)],
        "usage": usage,
    }


def _sources(sources: Sequence[Source]) -> str:
    if not sources:
        return "No sources were returned: nothing in the report is attributed."
    rows = [
        f"{source.number}. {source.title or source.url} <{source.url}> ({source.provenance})"
        for source in sources
    ]
    return "\n".join(("Sources:", *rows))


def _summary(view: RunView) -> Json:
    return {
        "id": response_id(view.id),
        "status": view.status,
        "preset": view.preset,
        "title": view.title,
        "created_at": _moment(view.created_at),
        "completed_at": _moment(view.completed_at) if view.completed_at else None,
        "sandbox": view.sandbox,
    }


def _status(view: RunView) -> str:
    """A run that waits for a worker is under way to whoever waits for it (agent-api §9.1)."""
    return "in_progress" if view.status == "queued" else view.status


def _next(wait: int, now: datetime, step: str) -> Json:
    at = _moment(now + timedelta(seconds=wait)) if wait else None
    return {"retry_after_seconds": wait, "next_check_at": at, "next_step": step}


def _after_start(view: RunView, name: str, wait: int, now: datetime) -> str:
    if not view.is_terminal:
        return f"The question is NOT answered yet. {_look_again(name, wait, now)}"
    if view.report is not None:
        return f"This run has ended already. Call get_research with id {name!r} to read its report."
    return _after_end(view)


def _look_again(name: str, wait: int, now: datetime) -> str:
    at = _moment(now + timedelta(seconds=wait))
    return (
        f"Call get_research with id {name!r} in {wait} seconds, at {at}, and not before."
        " Do not start the research again: it is under way and goes on without you."
    )


def _after_end(view: RunView) -> str:
    if view.status == "cancelled":
        spent = "Nothing" if view.credits_charged == view.credits_refunded else "Its price"
        return f"The run was stopped. {spent} was charged. To ask again, use a new idempotency_key."
    reason = view.error_message.rstrip(".") or "No reason was given"
    if view.error_code == "insufficient_quota":
        return f"{reason}. Nothing was charged. Tell your user that credits are missing before you try again."
    if view.error_code == "rate_limit_exceeded":
        return f"{reason}. Nothing was charged. Wait for another run to end, then use a new idempotency_key."
    return (
        f"{reason}. Its credits came back. To try again, perhaps with a narrower question, start a new run"
        " with a new idempotency_key."
    )


def _cut_short(view: RunView) -> str:
    if view.status != "incomplete" or view.report is None:
        return ""
    reason = view.report.incomplete_reason.replace("_", " ") or "unknown reason"
    return f"The report is cut short ({reason}): it may lack its end."


def _label(view: RunView) -> str:
    return SANDBOX if view.sandbox else ""


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
