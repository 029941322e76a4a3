"""The jobs of Perplexity's asynchronous Sonar API (perplexity-api §§3.3, 3.5, 4.1): views in, JSON out.

Every key is always there. A run that was cut short is a completed job whose answer ends for its
`length`; one that was stopped is a failed job, since Sonar knows no other words (§5.12).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from portal.wire.clock import unix
from portal.wire.ids import response_id
from research.protocol.answer import Json, ReportView, RunView, our_member
from research.protocol.outcome import Source
from research.protocol.sonar import MODEL

STATUSES: Mapping[str, str] = {
    "queued": "CREATED",
    "in_progress": "IN_PROGRESS",
    "completed": "COMPLETED",
    "incomplete": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "FAILED",
}
UNKNOWN = "No source has this number"


def build_job(view: RunView) -> Json:
    """What create and get answer."""
    failed = STATUSES[view.status] == "FAILED"
    return {
        **build_job_summary(view),
        "error_message": _error(view) if failed else None,
        "response": _completion(view, view.report) if view.report else None,
        "sonde": our_member(view),
    }


def build_job_summary(view: RunView) -> Json:
    """A job in a list."""
    status = STATUSES[view.status]
    ended = unix(view.completed_at)
    return {
        "id": response_id(view.id),
        "model": MODEL,
        "status": status,
        "created_at": unix(view.created_at),
        "started_at": unix(view.submitted_at),
        "completed_at": ended if status == "COMPLETED" else None,
        "failed_at": ended if status == "FAILED" else None,
    }


def build_jobs(views: list[RunView], *, has_more: bool) -> Json:
    """`next_token` is the id of the last one."""
    requests = [build_job_summary(view) for view in views]
    return {"requests": requests, "next_token": requests[-1]["id"] if has_more else None}


def _error(view: RunView) -> str:
    if view.status == "cancelled":
        return "The run was stopped."
    return view.error_message or "The run failed."


def _completion(view: RunView, report: ReportView) -> Json:
    listed = [source for source in report.sources if source.provenance != "recovered"]
    results = [_result(source) for source in _in_their_places(listed, report)]
    return {
        "id": response_id(view.id),
        "model": MODEL,
        "created": unix(view.created_at),
        "object": "chat.completion",
        "choices": [_choice(view, report)],
        "citations": [result["url"] for result in results],
        "search_results": results,
        "usage": _usage(report),
    }


def _choice(view: RunView, report: ReportView) -> Json:
    """Thinking stands before the report, between the tags that these models put it in."""
    thinking = f"<think>\n{report.thinking}\n</think>\n\n" if report.thinking else ""
    return {
        "index": 0,
        "finish_reason": "length" if view.status == "incomplete" else "stop",
        "message": {"role": "assistant", "content": thinking + report.text},
        "delta": {"role": "assistant", "content": ""},
    }


def _in_their_places(listed: list[Source], report: ReportView) -> list[Source]:
    """`listed` as `[n]` counts them: the n-th entry is what that mark means.

    Numbers have gaps where two of them mean one page, which then stands in both places, and where the
    text uses a number that no source has. Numbers that no list of this length can have are left alone.
    """
    by_number = {source.number: source for source in listed}
    last = max(by_number, default=0)
    if last > 2 * len(listed):
        return listed
    by_url = {source.url: source for source in listed if source.url}
    meant = {
        report.text[citation["start_index"] : citation["end_index"]]: by_url.get(citation["url"])
        for citation in report.annotations
    }
    return [
        by_number.get(number) or meant.get(f"[{number}]") or Source(number, "", UNKNOWN, "retrieved")
        for number in range(1, last + 1)
    ]


def _result(source: Source) -> Json:
    return {
        "title": source.title,
        "url": source.url,
        "date": source.date,
        "last_updated": None,
        "snippet": source.snippet,
        "source": "web",
    }


def _usage(report: ReportView) -> Json:
    """Of the money only the sum is known, which stands as the price of the request.

    `cost` cannot be left out (§4.1): where the upstream named none, `sonde.upstream_cost` is null.
    """
    total = float(report.upstream_cost or Decimal(0))
    return {
        "prompt_tokens": report.input_tokens,
        "completion_tokens": report.output_tokens,
        "total_tokens": report.input_tokens + report.output_tokens,
        "num_search_queries": len(report.queries) if report.searches is None else report.searches,
        "reasoning_tokens": report.reasoning_tokens,
        "cost": {
            "input_tokens_cost": 0.0,
            "output_tokens_cost": 0.0,
            "request_cost": total,
            "total_cost": total,
        },
    }
