"""Perplexity's legacy async API (both path families): our order into its job, its answers into ours.

Pure and total: no status and no body makes anything here raise. Sections are perplexity-api's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from research.protocol.outcome import (
    Ended,
    Fetched,
    Finished,
    Found,
    Order,
    Query,
    Running,
    Snapshot,
    Submission,
    Submitted,
    Usage,
)
from research.protocol.refusals import broken, error_message, refusal
from research.protocol.thinking import split_thinking
from research.protocol.wire_files import sonar_content
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
from research.protocol.wire_search import (
    LONGEST_QUERY,
    read_fetched,
    read_page,
    read_positions,
    search_filters,
)

MODEL = "sonar-deep-research"
EFFORTS = ("minimal", "low", "medium", "high")
LONGEST_MODEL = 120
_ID = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_NO_REPORT = "The upstream finished without delivering a report."


def build_request(order: Order) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Body of the submission and the names of options that it cannot express (§3.1, §3.2).

    Of prompts only the caller's own is sent (mcp-deep-research §0.2).
    """
    options = order.options
    filters, ignored = search_filters(options)
    request: dict[str, Any] = {"model": MODEL, "messages": _messages(order), **filters}
    efforts = (options.reasoning_effort, order.parameters.get("reasoning_effort"))
    effort = next((word for word in efforts if word in EFFORTS), None)
    if effort:
        request["reasoning_effort"] = effort
    if options.reasoning_effort and options.reasoning_effort not in EFFORTS:
        ignored.append("reasoning_effort")
    if options.search_mode:
        request["search_mode"] = options.search_mode
    if options.language:
        request["language_preference"] = options.language
    if options.model and options.model != MODEL:
        ignored.append("model")
    return {"request": request, "idempotency_key": order.upstream_key}, tuple(ignored)


def _messages(order: Order) -> list[dict[str, Any]]:
    said: list[tuple[str, Any]] = []
    if order.options.instructions:
        said.append(("system", order.options.instructions))
    if order.earlier:
        said += order.earlier.said
    said.append(("user", sonar_content(order)))
    return [{"role": role, "content": content} for role, content in said]


def parse_created(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime, ignored: tuple[str, ...] = ()
) -> Submission:
    """The answer to a submission. The list of jobs in its place is a broken answer (§3.5)."""
    if not 200 <= status < 300:
        return refusal("create", status, headers, body, now)
    job = read_object(body)
    if job is None:
        return broken("is not a JSON object")
    name = string(job.get("id"))
    if "requests" in job or not _ID.fullmatch(name) or not name.strip("."):
        return broken("names no job")
    return Submitted(name, ignored)


def parse_snapshot(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Snapshot:
    """The answer to a fetch (§3.3). An unknown status goes on; no status at all is a broken answer."""
    if not 200 <= status < 300:
        return refusal("poll", status, headers, body, now)
    job = read_object(body)
    if job is None:
        return broken("is not a JSON object")
    state = string(job.get("status")).upper()
    if not state or "requests" in job:
        return broken("is not a job")
    if state == "FAILED":
        return Ended(error_message(job) or "The upstream gave no reason.")
    if state != "COMPLETED":
        return Running()
    done = _read_response(job)
    return done if split_thinking(done.text).text.strip() else Ended(error_message(job) or _NO_REPORT)


def _read_response(job: dict[str, Any]) -> Finished:
    """The completion object of a completed job (§4.1)."""
    response = members(job.get("response"))
    choice = next(iter(objects(response.get("choices"))), {})
    message = members(choice.get("message"))
    steps = objects(message.get("reasoning_steps"))
    usage = _usage(members(response.get("usage")))
    cut_short = choice.get("finish_reason") == "length"
    return Finished(
        text=content_text(message.get("content")),
        complete=not cut_short,
        reason="max_output_tokens" if cut_short else None,
        found=(*_listed(response), *(page for step in steps for page in _results(step))),
        queries=tuple(query for step in steps for query in _queries(step)),
        fetched=tuple(page for step in steps for page in _opened(step)),
        steps=len(steps) or usage.searches or 0,
        usage=usage,
        model=line(response.get("model") or job.get("model"), LONGEST_MODEL),
    )


def _listed(response: dict[str, Any]) -> list[Found]:
    """Marks count places in `search_results`; in `citations` only when those are all there is (§3.4)."""
    results, citations = (read_positions(response.get(name)) for name in ("search_results", "citations"))
    if any(page.url or page.title for page in results):
        return [*results, *(replace(page, number=None) for page in citations)]
    return citations


def _results(step: dict[str, Any]) -> list[Found]:
    return [read_page(page) for page in objects(members(step.get("web_search")).get("search_results"))]


def _queries(step: dict[str, Any]) -> list[Query]:
    """The searches of one step. Which query brought which page is not told: the first has them all."""
    pages = tuple(page.url for page in _results(step) if page.url)
    texts = strings(members(step.get("web_search")).get("search_keywords"))
    return [Query(line(text, LONGEST_QUERY), () if place else pages) for place, text in enumerate(texts)]


def _opened(step: dict[str, Any]) -> list[Fetched]:
    return read_fetched(members(step.get("fetch_url_content")).get("contents"))


def _usage(usage: dict[str, Any]) -> Usage:
    searches = usage.get("num_search_queries")
    return Usage(
        input_tokens=count_of(usage.get("prompt_tokens")),
        output_tokens=count_of(usage.get("completion_tokens")),
        reasoning_tokens=count_of(usage.get("reasoning_tokens")),
        searches=count_of(searches) if searches is not None else None,
        cost=dollars(members(usage.get("cost")).get("total_cost")),
    )
