"""The Agent API's response object and output items (perplexity-api §5.5 to §5.8), with their quirks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sandbox.agent_request import OLD_PRESETS, AgentAsk, read_ask
from sandbox.costs import split
from sandbox.findings import Findings, Step, findings
from sandbox.runs import Moment
from sandbox.scenarios import Script
from sandbox.sources import Source

_COSTS = {
    "fast": Decimal("0.0015"),
    "low": Decimal("0.0032"),
    "medium": Decimal("0.0165"),
    "high": Decimal("0.52"),
    "xhigh": Decimal("0.87"),
    "wide-research": Decimal("0.91"),
}
_OTHER_COST = Decimal("0.0124")
_ENDINGS: Mapping[str, tuple[dict[str, str] | None, dict[str, str] | None]] = {
    "failed": (
        {
            "code": "internal_error",
            "message": "The run failed while reading a page.",
            "type": "internal_error",
        },
        None,
    ),
    "cancelled": (
        {"code": "cancelled", "message": "cancelled", "type": "cancelled"},
        {"reason": "cancelled"},
    ),
    "incomplete": (None, {"reason": "max_output_tokens"}),
}


_ODD_ITEMS: tuple[dict[str, object], ...] = (
    {"type": "unknown", "item_name": "proto_item", "payload": {"a": [1]}},
    {"type": "skill_loaded", "name": "office/docx"},
    {"type": "item_of_next_year", "value": None},
)


def result(number: int, source: Source) -> dict[str, object]:
    """One entry of `search_results`; `number` is the running id over the whole run, from 1."""
    entry: dict[str, object] = {"id": number, "url": source.url}
    for name in ("title", "snippet", "date", "last_updated"):
        if getattr(source, name) is not None:
            entry[name] = getattr(source, name)
    return {**entry, "source": "web"}


def content(source: Source) -> dict[str, object]:
    return {"url": source.url, "title": source.title or "", "snippet": source.snippet or ""}


def step_item(whole: Findings, step: Step) -> dict[str, object]:
    """The output item of one step; neither kind has an id."""
    seen = whole.seen(step)
    if step.kind == "fetch":
        return {"type": "fetch_url_results", "contents": [content(source) for source in seen]}
    results = [result(step.first + index + 1, source) for index, source in enumerate(seen)]
    return {"type": "search_results", "queries": list(step.queries), "results": results}


def _message(message_id: str, status: str, *texts: str) -> dict[str, object]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": message_id, "role": "assistant", "status": status, "content": parts}


def message_items(job_id: str, text: str, script: Script) -> list[dict[str, object]]:
    """The report as message items; annotations are empty, as in every recorded answer."""
    message_id = "msg_" + job_id.removeprefix("resp_")
    status = "incomplete" if "incomplete" in script else "completed"
    if "content-null" in script:
        return [_message(message_id, status)]
    if "content-parts" in script:
        third = len(text) // 3
        return [
            _message(message_id, status, text[:third], text[third : 2 * third]),
            _message(f"{message_id}-2", status, text[2 * third :]),
        ]
    return [_message(message_id, status, text)]


def found(moment: Moment) -> Findings:
    """What the run finds in the end."""
    return findings(moment.job.question, "agent", asked_for(moment.job.body)[1].reach)


def output(moment: Moment) -> list[dict[str, object]]:
    """What a fetch shows now: the steps so far, and the report once it is there."""
    if "incomplete-empty" in moment.script and moment.state == "incomplete":
        return []
    whole = found(moment)
    items = [step_item(whole, step) for step in whole.steps if whole.sources and step.at <= moment.share]
    if "odd-items" in moment.script:
        items = [*_ODD_ITEMS, *items]
    if moment.state in ("completed", "incomplete"):
        items += message_items(moment.job.id, whole.text, moment.script)
    elif "text-early" in moment.script and moment.state in ("in_progress", "cancelled"):
        so_far = whole.text[: int(len(whole.text) * moment.share)]
        items.append(_message("msg_" + moment.job.id.removeprefix("resp_"), "in_progress", so_far))
    return items


def usage(moment: Moment, name: str) -> dict[str, object] | None:
    """Null until completed, and for runs that failed or were cancelled; the sum of the costs is exact."""
    script = moment.script
    if moment.state not in ("completed", "incomplete") or "no-usage" in script:
        return None
    whole = found(moment)
    words = len(whole.text.split())
    bundle = name.partition("@")[0]
    usual = _COSTS.get(OLD_PRESETS.get(bundle, bundle), _OTHER_COST)
    total = Decimal(script.markers["cost"]) if "cost" in script else usual
    read, written, searched = split(total)
    counted: dict[str, object] = {
        "input_tokens": 5 * words,
        "output_tokens": 2 * words,
        "total_tokens": 7 * words,
        "input_tokens_details": {"cached_tokens": 0},
        "tool_calls_details": {
            "search_web": {"invocation": whole.queries},
            "fetch_url": {"invocation": whole.fetches},
        },
    }
    if "no-cost" not in script:
        counted["cost"] = {
            "currency": "USD",
            "input_cost": read,
            "output_cost": written,
            "tool_calls_cost": searched,
            "total_cost": total,
        }
    return counted


@lru_cache(maxsize=4096)
def asked_for(body: str) -> tuple[Mapping[str, Any], AgentAsk]:
    """A stored request, decoded and read. Neither part may be changed."""
    decoded = json.loads(body)
    return decoded, read_ask(decoded)


def response(moment: Moment, now: float) -> dict[str, Any]:
    """The 32 keys. `created_at` is the time of this snapshot, and `completed_at` equals it once completed;
    `model` is the preset's name until completed, then the model that answered."""
    asked, ask = asked_for(moment.job.body)
    done = moment.state == "completed"
    error, details = _ENDINGS.get(moment.state, (None, None))
    if "failed-silent" in moment.script:
        error = None
    return {
        "id": moment.job.id,
        "object": "response",
        "created_at": int(now),
        "completed_at": int(now) if done else None,
        "status": moment.odd_word or moment.state,
        "background": ask.background,
        "model": ask.model if done else ask.name,
        "output": output(moment),
        "error": error,
        "incomplete_details": details,
        "usage": usage(moment, ask.name),
        "store": ask.store,
        "previous_response_id": ask.previous,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "max_output_tokens": asked.get("max_output_tokens"),
        "max_tool_calls": asked.get("max_tool_calls"),
        "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "prompt_cache_key": asked.get("prompt_cache_key"),
        "reasoning": asked.get("reasoning"),
        "safety_identifier": None,
        "service_tier": asked.get("service_tier") or "default",
        "temperature": asked.get("temperature") if asked.get("temperature") is not None else 1,
        "text": {"format": asked.get("response_format") or {"type": "text"}},
        "tool_choice": asked.get("tool_choice") or "auto",
        "tools": asked.get("tools") or [],
        "top_logprobs": 0,
        "top_p": asked.get("top_p") if asked.get("top_p") is not None else 1,
        "truncation": asked.get("truncation") or "",
        "user": None,
    }
