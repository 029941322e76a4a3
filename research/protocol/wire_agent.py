"""Perplexity's Agent API in background mode: our order into its request, its answers into ours.

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
    Stop,
    Submission,
    Submitted,
    Usage,
)
from research.protocol.refusals import broken, error_message, refusal
from research.protocol.thinking import split_thinking
from research.protocol.wire_files import responses_content
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
from research.protocol.wire_search import LONGEST_QUERY, read_fetched, read_page, search_filters

DEFAULT_EFFORT = "medium"
"""When a preset names none: what Perplexity itself maps deep research to (§5.4)."""
_BY_REASONING = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_REASONING = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_LIMITS = {"max_steps": 100, "max_output_tokens": 10**6, "max_tool_calls": 10**4}
"""Number parameters of a preset that are sent, and the most of each."""
_EFFORT = re.compile(r"[a-z][a-z0-9-]{0,40}(?:@[0-9.-]{1,20})?", re.ASCII)
_ID = re.compile(r"resp_[A-Za-z0-9_-]{1,100}", re.ASCII)
_CALLS = ("_results", "_call")
"""How the kinds of output items end that are tool calls (§5.7)."""
_END_WORDS = {
    "completed": "The upstream finished without delivering a report.",
    "incomplete": "The upstream stopped before it had written anything.",
    "failed": "The upstream gave no reason.",
    "cancelled": "It was cancelled upstream.",
}
LONGEST_REASON = 40
LONGEST_MODEL = 120


def build_request(order: Order) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Body of `POST /v1/agent` and the names of options that it cannot express (§5.2, §5.12).

    The server refuses unknown keys, so nothing is sent that is not named here.
    """
    options, ignored = order.options, []
    body: dict[str, Any] = {"input": _input(order), "background": True, **_effort(order)}
    body |= {
        name: value
        for name, most in _LIMITS.items()
        if type(value := order.parameters.get(name)) is int and 1 <= value <= most
    }
    if order.earlier and order.earlier.upstream_id:
        body["previous_response_id"] = order.earlier.upstream_id
    if options.language:
        body["language_preference"] = options.language
    filters, unsaid = search_filters(options)
    if filters:
        body["tools"] = [{"type": "web_search", "filters": filters}, {"type": "fetch_url"}]
    ignored += unsaid
    if options.search_mode in ("academic", "sec"):
        ignored.append("search_mode")
    if options.model:
        ignored.append("model")
    if options.reasoning_effort and options.reasoning_effort not in _REASONING:
        ignored.append("reasoning_effort")
    return body, tuple(ignored)


def _input(order: Order) -> str | list[dict[str, Any]]:
    """The question; with instructions, an earlier turn or something attached, a list of items.

    `instructions` would replace the preset's own prompt, a system item adds to it (§5.12).
    """
    said: list[tuple[str, Any]] = []
    if order.options.instructions:
        said.append(("system", order.options.instructions))
    if order.earlier and not order.earlier.upstream_id:
        said += order.earlier.said
    content = responses_content(order)
    if not said and isinstance(content, str):
        return content
    said.append(("user", content))
    return [{"type": "message", "role": role, "content": content} for role, content in said]


def _effort(order: Order) -> dict[str, Any]:
    """Which preset answers: the run's own, else what the caller's reasoning effort maps to (§5.12).

    A reasoning effort that means another preset than the run's is sent as `reasoning`.
    """
    asked = order.options.reasoning_effort or ""
    mapped = _BY_REASONING.get(asked)
    given = ((name, order.parameters.get(name)) for name in ("effort", "preset"))
    usable = ((name, word) for name, word in given if isinstance(word, str) and _EFFORT.fullmatch(word))
    name, chosen = next(usable, ("effort", mapped or DEFAULT_EFFORT))
    differs = asked in _REASONING and mapped != chosen.partition("@")[0]
    return {name: chosen} | ({"reasoning": {"effort": asked}} if differs else {})


def parse_created(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime, ignored: tuple[str, ...] = ()
) -> Submission:
    """The answer to `POST /v1/agent`. Any JSON object with a usable id is a job that was taken."""
    if not 200 <= status < 300:
        return refusal("create", status, headers, body, now)
    created = read_object(body)
    if created is None:
        return broken("is not a JSON object")
    name = string(created.get("id"))
    return Submitted(name, ignored) if _ID.fullmatch(name) else broken("names no job")


def parse_cancel(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Stop:
    """The answer to `POST /v1/agent/{id}/cancel`. An unknown job and an ended one are both a 400."""
    return "stopping" if 200 <= status < 300 else refusal("cancel", status, headers, body, now)


def parse_snapshot(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Snapshot:
    """The answer to `GET /v1/agent/{id}`. Statuses are an open set: an unknown one goes on (§5.6)."""
    if not 200 <= status < 300:
        return refusal("poll", status, headers, body, now)
    job = read_object(body)
    if job is None:
        return broken("is not a JSON object")
    state = string(job.get("status")).lower()
    if not state:
        return broken("has no status")
    done = _read_output(job)
    if state in ("completed", "incomplete"):
        return _finished(job, done, state) if _has_report(done.text) else _ended(job, done, state)
    if state in ("failed", "cancelled"):
        return _ended(job, done, state)
    return Running(done.queries, done.fetched, done.found, done.text)


def _has_report(text: str) -> bool:
    return bool(split_thinking(text).text.strip())


def _finished(job: dict[str, Any], done: Finished, state: str) -> Finished:
    return done if state == "completed" else replace(done, complete=False, reason=_reason(job, state))


def _ended(job: dict[str, Any], done: Finished, state: str) -> Ended:
    cancelled = state == "cancelled"
    partial = replace(done, complete=False, reason=_reason(job, state)) if _has_report(done.text) else None
    message = error_message({"error": job.get("error")})
    return Ended(message or _END_WORDS[state], cancelled=cancelled, partial=partial)


def _reason(job: dict[str, Any], state: str) -> str:
    return line(members(job.get("incomplete_details")).get("reason"), LONGEST_REASON) or state


def _read_output(job: dict[str, Any]) -> Finished:
    """Everything that a snapshot holds so far, as if it were complete (§5.7)."""
    items = objects(job.get("output"))
    usage = members(job.get("usage"))
    tools = members(usage.get("tool_calls_details"))
    invocations = sum(count_of(members(tool).get("invocation")) for tool in tools.values())
    calls = sum(string(item.get("type")).endswith(_CALLS) for item in items)
    return Finished(
        text="".join(_message_text(item) for item in items),
        found=tuple(page for item in items for page in _results(item)),
        queries=tuple(query for item in items for query in _queries(item)),
        fetched=tuple(page for item in items for page in _opened(item)),
        steps=invocations or calls,
        usage=_usage(usage, tools),
        model=line(job.get("model"), LONGEST_MODEL),
    )


def _message_text(item: dict[str, Any]) -> str:
    is_answer = item.get("type") == "message" and item.get("role") in (None, "assistant")
    return content_text(item.get("content")) if is_answer else ""


def _results(item: dict[str, Any]) -> list[Found]:
    """Results of a search, under the numbers that run over the whole job."""
    if item.get("type") != "search_results":
        return []
    return [read_page(result, count_of(result.get("id"))) for result in objects(item.get("results"))]


def _queries(item: dict[str, Any]) -> list[Query]:
    """The searches of one step. Which query brought which page is not told: the first has them all."""
    pages = tuple(page.url for page in _results(item) if page.url)
    texts = [line(text, LONGEST_QUERY) for text in strings(item.get("queries"))]
    return [Query(text, () if place else pages) for place, text in enumerate(texts)]


def _opened(item: dict[str, Any]) -> list[Fetched]:
    return read_fetched(item.get("contents")) if item.get("type") == "fetch_url_results" else []


def _usage(usage: dict[str, Any], tools: dict[str, Any]) -> Usage:
    """Sparse by nature: what is missing counts as nothing (§5.5, §5.8)."""
    searches = members(tools.get("search_web"))
    cost = members(usage.get("cost"))
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        reasoning_tokens=count_of(members(usage.get("output_tokens_details")).get("reasoning_tokens")),
        cached_tokens=count_of(members(usage.get("input_tokens_details")).get("cached_tokens")),
        searches=count_of(searches.get("invocation")) if searches else None,
        cost=dollars(cost.get("total_cost")) if cost.get("currency") in (None, "USD") else None,
    )
