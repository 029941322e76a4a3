"""`pplx_deep_research_*` over our own runs (mcp-deep-research): the caller's, whatever door made them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from django.utils import timezone

from portal.api.threads import run_in_database
from portal.api.tools import ToolCall, ToolDoor
from portal.models.keys import Scope
from portal.services.principal import Principal
from portal.wire.fields import Fields
from portal.wire.ids import response_id
from portal.wire.tools import ToolResult
from research.mcp_tools.asking import start_from
from research.mcp_tools.waiting import look_until_end
from research.protocol import mcp_deep
from research.protocol.answer import ReportView, RunView
from research.protocol.mcp_answers import SANDBOX
from research.protocol.mcp_deep import Job, JobSource
from research.protocol.sonar import LEAST_BUDGET, preset_of
from research.protocol.sonar_answer import STATUSES
from research.queries import list_runs
from research.services.views import summary_of, view_of


async def start(call: ToolCall) -> ToolResult:
    return await run_in_database(partial(_start, call.who, call.arguments))


async def check(call: ToolCall) -> ToolResult:
    asked = mcp_deep.read_check(call.arguments)
    found = await look_until_end(call.who, asked.job_id, asked.wait_seconds, call.tell)
    return mcp_deep.checked_text(_job(found.view), timezone.now(), strip_thinking=asked.strip_thinking)


async def list_all(call: ToolCall) -> ToolResult:
    return await run_in_database(partial(_list, call.who, call.arguments))


def _start(who: Principal, arguments: Fields) -> ToolResult:
    query, effort, more = mcp_deep.read_start(arguments)
    body = {"input": query, "preset": preset_of(effort), **more}
    names = {"input": "query", "preset": "reasoning_effort", "instructions": "system_prompt"}
    started = start_from(who, body, names, least_budget=LEAST_BUDGET)
    job = _job(view_of(started.run))
    if job.status == "FAILED":
        return mcp_deep.checked_text(job, timezone.now(), strip_thinking=True)
    return mcp_deep.started_text(job, effort)


def _list(who: Principal, arguments: Fields) -> ToolResult:
    status, limit = mcp_deep.read_list(arguments)
    wanted = None if status is None else [ours for ours, theirs in STATUSES.items() if theirs == status]
    page = list_runs(who, limit, statuses=wanted)
    return mcp_deep.listed_text([_job(summary_of(run)) for run in page.runs], status)


def _job(view: RunView) -> Job:
    job = Job(
        id=response_id(view.id),
        status=STATUSES[view.status],
        model=(view.report.model if view.report else "") or f"deep research ({view.preset})",
        created_at=view.created_at,
        started_at=view.submitted_at,
        completed_at=view.completed_at,
        error="It was cancelled." if view.status == "cancelled" else view.error_message,
        notes=(*((SANDBOX,) if view.sandbox else ()), *map(str, view.notes)),
    )
    return job if view.report is None else _with_report(job, view, view.report)


def _with_report(job: Job, view: RunView, report: ReportView) -> Job:
    thinking = f"<think>\n{report.thinking}\n</think>\n\n" if report.thinking else ""
    cut = report.incomplete_reason.replace("_", " ") or "unknown reason"
    return replace(
        job,
        text=thinking + report.text,
        search_results=tuple(
            JobSource(source.url, source.title, source.date or "")
            for source in report.sources
            if source.provenance != "recovered"
        ),
        queries=report.searches if report.searches is not None else len(report.queries) or None,
        cost=report.upstream_cost,
        cut_short=cut if view.status == "incomplete" else "",
        notes=(*job.notes, *map(str, report.notices)),
    )


RESEARCH = Scope.RESEARCH.value
doors = (
    ToolDoor(mcp_deep.START, RESEARCH, start),
    ToolDoor(mcp_deep.CHECK, RESEARCH, check),
    ToolDoor(mcp_deep.LIST, RESEARCH, list_all),
)
