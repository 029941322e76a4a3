"""The response objects of the research agent API (agent-api §§2-3): views in, JSON dicts out.

Keys always come in the same order, and every key is always there, so that two polls of one run
differ only in what has changed. What OpenAI's shape has no place for stands in `sonde`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from portal.wire.amounts import json_number, plain
from portal.wire.clock import unix
from portal.wire.ids import message_id, response_id
from research.protocol.outcome import Source

Json = dict[str, Any]
TERMINAL = frozenset({"completed", "failed", "incomplete", "cancelled"})


@dataclass(frozen=True, slots=True)
class ReportView:
    """A delivered report. `annotations`, `receipt`, `checks` and `notices` are JSON already."""

    text: str
    thinking: str = ""
    sources: tuple[Source, ...] = ()
    queries: tuple[str, ...] = ()
    annotations: tuple[Json, ...] = ()
    receipt: Json = field(default_factory=dict)
    checks: Json = field(default_factory=dict)
    notices: tuple[Any, ...] = ()
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    searches: int | None = None
    upstream_cost: Decimal | None = None
    """US dollars, exact."""
    model: str = ""
    incomplete_reason: str = ""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as its user may see it. `status` is the public one (agent-api §5)."""

    id: UUID
    status: str
    created_at: datetime
    preset: str
    title: str = ""
    submitted_at: datetime | None = None
    completed_at: datetime | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    instructions: str | None = None
    previous_id: UUID | None = None
    credits_charged: Decimal = Decimal(0)
    credits_refunded: Decimal = Decimal(0)
    usual_seconds: int = 0
    error_code: str = ""
    error_message: str = ""
    backend: str = ""
    ignored: tuple[str, ...] = ()
    notes: tuple[Any, ...] = ()
    sandbox: bool = False
    report: ReportView | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL


def as_started(view: RunView) -> RunView:
    """A first start is always answered `queued`; a poll tells what has become of it (agent-api §7)."""
    return replace(view, status="queued", completed_at=None)


def as_given(view: RunView, owner: str) -> RunView:
    """What somebody is told of a run that `owner` has given to their team: whose it is, and nothing that
    its user sent along for themselves."""
    whose = f"{owner} asked this and shared it with the team: it can be read, and stays theirs."
    return replace(view, metadata={}, instructions=None, previous_id=None, notes=(whose, *view.notes))


def build_response(view: RunView) -> Json:
    """The whole object: what create, retrieve and `/v1/responses/{id}/cancel` answer."""
    report = view.report
    return {
        **_head(view),
        "output": [_search_results(report), _message(view, report)] if report else [],
        "output_text": report.text if report else "",
        **_rest(view),
        "usage": _usage(view) if view.is_terminal else None,
        **_echo(view),
        "sonde": our_member(view),
    }


def build_summary(view: RunView) -> Json:
    """A run in a list: the object without its output, its receipt and its sources."""
    usage = _usage(view) if view.is_terminal else None
    if usage is not None:
        del usage["pocket_search"]["research_receipt"]
    own = {key: value for key, value in our_member(view).items() if key not in ("sources", "checks")}
    return {
        **_head(view),
        **_rest(view),
        "usage": usage,
        **_echo(view),
        "sonde": {"title": view.title, **own},
    }


def build_cancel(view: RunView) -> Json:
    """What the agent door answers to a cancel, both for pending and for stopped runs (SPEC 10.2)."""
    return {"response_id": response_id(view.id), "status": "cancelling"}


def build_list(views: list[RunView], has_more: bool) -> Json:
    data = [build_summary(view) for view in views]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def poll_again_after(view: RunView) -> int | None:
    """Seconds after which another look is worth while; None when there is nothing to wait for."""
    return None if view.is_terminal else min(max(view.usual_seconds // 40, 2), 15)


def _head(view: RunView) -> Json:
    return {
        "id": response_id(view.id),
        "object": "response",
        "created_at": unix(view.created_at),
        "completed_at": unix(view.completed_at) if view.status == "completed" else None,
        "status": view.status,
        "model": "default",
    }


def _rest(view: RunView) -> Json:
    failed = view.status == "failed"
    reason = view.report.incomplete_reason if view.report and view.status == "incomplete" else ""
    return {
        "error": {"code": view.error_code or None, "message": view.error_message} if failed else None,
        "incomplete_details": {"reason": reason} if reason else None,
    }


def _echo(view: RunView) -> Json:
    return {
        "background": True,
        "store": True,
        "previous_response_id": response_id(view.previous_id) if view.previous_id else None,
        "instructions": view.instructions,
        "metadata": view.metadata,
        "parallel_tool_calls": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
    }


def _search_results(report: ReportView) -> Json:
    """What the search brought. Links recovered from the text were not searched for: see `sonde`."""
    return {
        "type": "search_results",
        "queries": list(report.queries),
        "results": [_result(source) for source in report.sources if source.provenance != "recovered"],
    }


def _result(source: Source) -> Json:
    """`snippet` is always there: without it the Perplexity SDK cannot type the item (agent-api §8)."""
    found: Json = {
        "id": source.number,
        "title": source.title,
        "url": source.url,
        "source": "web",
        "snippet": source.snippet,
    }
    return {**found, "date": source.date} if source.date else found


def _message(view: RunView, report: ReportView) -> Json:
    content = {
        "type": "output_text",
        "text": report.text,
        "annotations": list(report.annotations),
        "logprobs": [],
    }
    return {
        "type": "message",
        "id": message_id(view.id),
        "role": "assistant",
        "status": view.status,
        "content": [content],
    }


def _usage(view: RunView) -> Json:
    report = view.report or ReportView("")
    return {
        "input_tokens": report.input_tokens,
        "output_tokens": report.output_tokens,
        "total_tokens": report.input_tokens + report.output_tokens,
        "input_tokens_details": {"cached_tokens": report.cached_tokens, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": report.reasoning_tokens},
        "pocket_search": {
            "mode": view.preset,
            "credits_charged": json_number(view.credits_charged),
            "credits_refunded": json_number(view.credits_refunded),
            "duration_ms": _duration_ms(view),
            "steps": report.steps,
            "research_receipt": report.receipt or {"version": 1, "queries": [], "sourceInvestigations": []},
        },
    }


def _duration_ms(view: RunView) -> int:
    """On whole seconds: it equals `completed_at - created_at` to the digit (agent-api §3)."""
    return ((unix(view.completed_at) or 0) - (unix(view.created_at) or 0)) * 1000


def our_member(view: RunView) -> Json:
    """`sonde`: what no other's shape has a place for (SPEC 10.9)."""
    report = view.report or ReportView("")
    cost = report.upstream_cost
    return {
        "preset": view.preset,
        "backend": view.backend or None,
        "model": report.model or None,
        "sandbox": view.sandbox,
        "ignored": list(view.ignored),
        "sources": [
            {"id": source.number, "url": source.url, "title": source.title, "provenance": source.provenance}
            for source in report.sources
        ],
        "checks": report.checks,
        "notices": list(report.notices),
        "notes": list(view.notes),
        "upstream_cost": None if cost is None else plain(cost),
    }
