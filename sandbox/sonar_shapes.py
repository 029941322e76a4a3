"""The Sonar shapes: job, summary, completion and stream chunks (perplexity-api §3.3 to §4.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sandbox.costs import split
from sandbox.findings import Findings, findings
from sandbox.runs import Moment
from sandbox.scenarios import Script
from sandbox.sonar_request import SonarAsk, read_chat
from sandbox.sources import Source

_COSTS: Mapping[str, Decimal] = {
    "sonar": Decimal("0.0061"),
    "sonar-pro": Decimal("0.0187"),
    "sonar-reasoning-pro": Decimal("0.0234"),
    "sonar-deep-research": Decimal("0.4172"),
}
_STATUSES = {
    "queued": "CREATED",
    "in_progress": "IN_PROGRESS",
    "completed": "COMPLETED",
    "incomplete": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "FAILED",
}
_FAILURE = "The run failed while reading a page."
_ZERO = Decimal("0.0")


@lru_cache(maxsize=4096)
def asked_for(body: str) -> SonarAsk:
    """A stored chat request, read."""
    return read_chat(json.loads(body))


def search_result(source: Source) -> dict[str, object]:
    entry: dict[str, object] = {"url": source.url}
    if source.title is not None:
        entry = {"title": source.title, **entry}
    if source.date is not None:
        entry |= {"date": source.date, "last_updated": source.last_updated}
    return {**entry, "snippet": source.snippet or "", "source": "web"}


def found(moment: Moment) -> Findings:
    """What the run finds in the end."""
    return findings(moment.job.question, "sonar", asked_for(moment.job.body).reach)


def _sources(moment: Moment) -> dict[str, object]:
    """Both members are always there: empty ones are the known defect (§3.4), not absent ones."""
    sources = found(moment).sources
    shown = () if "citations-only" in moment.script else sources
    return {
        "citations": [source.url for source in sources],
        "search_results": [search_result(source) for source in shown],
    }


def usage(moment: Moment, model: str) -> dict[str, object]:
    """Required even by the SDK's type, `cost` with it; the parts add up exactly to `total_cost`."""
    script = moment.script
    words = len(found(moment).text.split())
    total = Decimal(script.markers["cost"]) if "cost" in script else _COSTS[model]
    total = _ZERO if "no-cost" in script else total
    read, written, searched = split(total)
    return {
        "prompt_tokens": 40,
        "completion_tokens": 2 * words,
        "total_tokens": 40 + 2 * words,
        "search_context_size": "low",
        "citation_tokens": 3 * words,
        "num_search_queries": found(moment).queries,
        "reasoning_tokens": 5 * words,
        "cost": {
            "input_tokens_cost": read,
            "output_tokens_cost": written,
            "reasoning_tokens_cost": _ZERO,
            "request_cost": _ZERO,
            "citation_tokens_cost": _ZERO,
            "search_queries_cost": searched,
            "total_cost": total,
        },
    }


def message_content(text: str, script: Script) -> object:
    if "content-null" in script:
        return None
    if "content-parts" in script:
        half = len(text) // 2
        return [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]
    return text


def report_text(moment: Moment) -> str:
    return "" if "incomplete-empty" in moment.script else found(moment).text


def completion(moment: Moment, model: str) -> dict[str, Any]:
    """A whole answer. A choice carries both `message` and an empty `delta`."""
    content = message_content(report_text(moment), moment.script)
    body: dict[str, Any] = {
        "id": moment.job.id,
        "model": model,
        "created": int(moment.job.created),
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length" if moment.state == "incomplete" else "stop",
                "message": {"role": "assistant", "content": content},
                "delta": {"role": "assistant", "content": ""},
            }
        ],
        **_sources(moment),
        "usage": None if "no-usage" in moment.script else usage(moment, model),
    }
    return body


def status_word(moment: Moment) -> str:
    odd = moment.odd_word
    return odd.upper() if odd else _STATUSES[moment.state]


def summary(moment: Moment) -> dict[str, object]:
    """A job as the list shows it."""
    failed = moment.state == "failed"
    ended = int(moment.ended) if moment.ended is not None else None
    return {
        "id": moment.job.id,
        "model": asked_for(moment.job.body).model,
        "status": status_word(moment),
        "created_at": int(moment.job.created),
        "started_at": int(moment.started) if moment.started is not None else None,
        "completed_at": None if failed else ended,
        "failed_at": ended if failed else None,
    }


def job_object(moment: Moment) -> dict[str, object]:
    failed = moment.state == "failed"
    done = moment.state in ("completed", "incomplete")
    return {
        **summary(moment),
        "error_message": _FAILURE if failed and "failed-silent" not in moment.script else None,
        "response": completion(moment, asked_for(moment.job.body).model) if done else None,
    }
