"""Rows into views: a Run and its Report as `research.protocol.answer` wants them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from portal.services.principal import Principal
from research.models.reports import Report
from research.models.runs import Run
from research.protocol.answer import ReportView, RunView, as_given
from research.protocol.outcome import Source


def view_of(run: Run) -> RunView:
    """`run` as `research.queries` and the services give it; its report is read when it has one."""
    return _view(run, _whole(run.report) if _is_delivered(run) else None)


def view_for(who: Principal, run: Run) -> RunView:
    """The same for somebody who may read the run without being its user."""
    view = view_of(run)
    return view if run.user_id == who.user_id else as_given(view, run.user.name or run.user.email)


def summary_of(run: Run) -> RunView:
    """The same for a list: nothing of the report that `list_runs` leaves in the database."""
    return _view(run, _outline(run.report) if _is_delivered(run) else None)


def _is_delivered(run: Run) -> bool:
    return run.status in ("completed", "incomplete") and hasattr(run, "report")


def _view(run: Run, report: ReportView | None) -> RunView:
    return RunView(
        id=run.id,
        status=run.status,
        created_at=run.created_at,
        submitted_at=run.submitted_at,
        completed_at=run.completed_at,
        preset=run.preset,
        title=run.title,
        metadata=run.metadata,
        instructions=run.options.get("instructions"),
        previous_id=run.continues,
        credits_charged=Decimal(run.credits_charged),
        credits_refunded=Decimal(run.credits_refunded),
        usual_seconds=run.usual_seconds,
        error_code=run.error_code,
        error_message=run.error_message,
        backend=run.backend,
        ignored=tuple(run.ignored),
        notes=tuple(run.notes),
        sandbox=run.sandbox,
        report=report,
    )


def _whole(report: Report) -> ReportView:
    return replace(
        _outline(report),
        text=report.text,
        thinking=report.thinking,
        sources=tuple(Source(**source) for source in report.sources),
        queries=tuple(report.queries),
        annotations=tuple(report.annotations),
        receipt=report.receipt,
        checks=report.checks,
    )


def _outline(report: Report) -> ReportView:
    usage: dict[str, Any] = report.usage
    return ReportView(
        text="",
        notices=tuple(report.notices),
        steps=report.steps,
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        cached_tokens=usage.get("cached_tokens", 0),
        reasoning_tokens=usage.get("reasoning_tokens", 0),
        searches=usage.get("searches"),
        upstream_cost=report.upstream_cost,
        model=report.model,
        incomplete_reason=report.incomplete_reason,
    )
