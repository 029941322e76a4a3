"""OpenAI's Responses API in background mode, as any endpoint may speak it (openai-compat §3).

OpenAI's own deep research tells its work in `web_search_call` items and its sources in annotations;
Perplexity and Sonde list them in `search_results`; Sonde says in `sonde` who really answered. Pure and
total: no status and no body makes anything here raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
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
from research.protocol.wire_search import LONGEST_QUERY, read_fetched, read_page

SEARCH_TOOL = {"type": "web_search_preview"}
"""A deep-research model of OpenAI's refuses to work without a tool that finds something."""
SOURCES = "web_search_call.action.sources"
"""What OpenAI tells of a search only to those who ask, when it is made and when it is fetched."""
_PASSED_ON = ("model", "preset", "tools", "reasoning", "max_output_tokens", "max_tool_calls", "text")
"""Parameters of a preset that are sent as they are."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,190}", re.ASCII)
_OPENED = ("open_page", "find_in_page", "find")
_ENDS = {
    "completed": "The upstream finished without delivering a report.",
    "incomplete": "The upstream stopped before it had written anything.",
    "failed": "The upstream gave no reason.",
    "cancelled": "It was cancelled upstream.",
}
LONGEST_REASON = 40
LONGEST_MODEL = 120
LONGEST_GOAL = 300


def build_request(order: Order, model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Body of `POST /responses`, and the names of options that it cannot express.

    OpenAI refuses unknown members, so nothing is sent that is not its own or the operator's.
    """
    options = order.options
    given = {name: order.parameters[name] for name in _PASSED_ON if name in order.parameters}
    body: dict[str, Any] = {"model": model, "input": _input(order), "background": True, "store": True}
    body |= {"tools": [SEARCH_TOOL], "include": [SOURCES], **given}
    if options.instructions:
        body["instructions"] = options.instructions
    if options.model:
        body["model"] = options.model
    if options.reasoning_effort:
        body["reasoning"] = {**members(body.get("reasoning")), "effort": options.reasoning_effort}
    if order.earlier and order.earlier.upstream_id:
        body["previous_response_id"] = order.earlier.upstream_id
    return body, tuple(_ignored(order))


def _ignored(order: Order) -> Iterable[str]:
    options = order.options
    if options.search_mode in ("academic", "sec"):
        yield "search_mode"
    if options.recency:
        yield "search_recency_filter"
    if options.domains:
        yield "search_domain_filter"
    if options.after_date:
        yield "search_after_date_filter"
    if options.before_date:
        yield "search_before_date_filter"
    if options.language:
        yield "language_preference"


def _input(order: Order) -> str | list[dict[str, Any]]:
    earlier, content = order.earlier, responses_content(order)
    said: list[tuple[str, Any]] = []
    if earlier and not earlier.upstream_id:
        said += earlier.said
    if not said and isinstance(content, str):
        return content
    said.append(("user", content))
    return [{"type": "message", "role": role, "content": content} for role, content in said]


def parse_created(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime, ignored: tuple[str, ...] = ()
) -> Submission:
    """The answer to `POST /responses`. Any JSON object with a usable id is a job that was taken."""
    if not 200 <= status < 300:
        return refusal("create", status, headers, body, now)
    created = read_object(body)
    if created is None:
        return broken("is not a JSON object")
    name = string(created.get("id"))
    return Submitted(name, ignored) if _ID.fullmatch(name) else broken("names no response")


def parse_cancel(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Stop:
    """The answer to `POST /responses/{id}/cancel`; a response that has ended is a 400."""
    return "stopping" if 200 <= status < 300 else refusal("cancel", status, headers, body, now)


def parse_snapshot(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Snapshot:
    """The answer to `GET /responses/{id}`. Statuses are an open set: an unknown one goes on."""
    if not 200 <= status < 300:
        return refusal("poll", status, headers, body, now)
    response = read_object(body)
    if response is None or "status" not in response:
        return broken("is no response")
    state = string(response["status"]).lower()
    done = _read_output(response)
    if state not in _ENDS:
        return Running(done.queries, done.fetched, done.found, done.text, goals=_goals(response))
    return _end(response, done, state)


def _end(response: dict[str, Any], done: Finished, state: str) -> Finished | Ended:
    has_report = bool(split_thinking(done.text).text.strip())
    if state == "completed" and has_report:
        return done
    partial = replace(done, complete=False, reason=_reason(response, state)) if has_report else None
    if state == "incomplete" and partial:
        return partial
    message = error_message({"error": response.get("error")}) or _ENDS[state]
    return Ended(message, cancelled=state == "cancelled", partial=partial)


def _reason(response: dict[str, Any], state: str) -> str:
    return line(members(response.get("incomplete_details")).get("reason"), LONGEST_REASON) or state


def _read_output(response: dict[str, Any]) -> Finished:
    """Everything that a response holds so far, as if it were complete."""
    items, usage, sonde = objects(response.get("output")), members(response.get("usage")), _sonde(response)
    receipt = members(members(usage.get("pocket_search")).get("research_receipt"))
    calls = sum(string(item.get("type")).endswith("_call") for item in items)
    return Finished(
        text="".join(_text(item) for item in items) or string(response.get("output_text")),
        found=tuple(page for item in items for page in _listed(item)),
        queries=tuple(_queries(items, receipt)),
        fetched=tuple(_fetched(items, receipt)),
        steps=count_of(members(usage.get("pocket_search")).get("steps")) or calls,
        usage=_usage(usage, sonde),
        model=line(sonde.get("model") or response.get("model"), LONGEST_MODEL),
        simulated=sonde.get("sandbox") is True,
    )


def _sonde(response: dict[str, Any]) -> dict[str, Any]:
    """What another Sonde says of a run beyond OpenAI's shape (SPEC 10.9)."""
    return members(response.get("sonde"))


def _text(item: dict[str, Any]) -> str:
    is_answer = item.get("type") == "message" and item.get("role") in (None, "assistant")
    return content_text(item.get("content")) if is_answer else ""


def _listed(item: dict[str, Any]) -> list[Found]:
    """Pages that an item names: under its numbers where it has some, and without where it cites or finds."""
    kind = item.get("type")
    if kind == "search_results":
        return [read_page(page, count_of(page.get("id"))) for page in objects(item.get("results"))]
    if kind == "message":
        parts = objects(item.get("content"))
        notes = (note for part in parts for note in objects(part.get("annotations")))
        return [read_page(note) for note in notes if note.get("type") == "url_citation"]
    if kind == "web_search_call":
        return [read_page(page) for page in objects(members(item.get("action")).get("sources"))]
    return []


def _queries(items: list[dict[str, Any]], receipt: dict[str, Any]) -> Iterable[Query]:
    """Of a receipt with the pages each brought; else of the search items."""
    told = objects(receipt.get("queries"))
    if told:
        for query in told:
            pages = tuple(string(page.get("url")) for page in objects(query.get("results")))
            yield Query(line(query.get("text"), LONGEST_QUERY), pages)
        return
    for item in items:
        action = members(item.get("action"))
        texts = strings(item.get("queries")) + strings(action.get("queries"))
        for text in texts or strings([action.get("query")]):
            yield Query(line(text, LONGEST_QUERY))


def _fetched(items: list[dict[str, Any]], receipt: dict[str, Any]) -> Iterable[Fetched]:
    for entry in objects(receipt.get("sourceInvestigations")):
        title = string(entry.get("label"))
        yield from (Fetched(page.url, title or page.title) for page in read_fetched(entry.get("sources")))
    for item in items:
        action = members(item.get("action"))
        if item.get("type") == "fetch_url_results":
            yield from read_fetched(item.get("contents"))
        elif action.get("type") in _OPENED and string(action.get("url")):
            yield from read_fetched([action])


def _goals(response: dict[str, Any]) -> tuple[str, ...]:
    """Headlines of the reasoning summary: all that is told of a plan."""
    parts = (
        part
        for item in objects(response.get("output"))
        if item.get("type") == "reasoning"
        for part in objects(item.get("summary"))
    )
    texts = (line(part.get("text"), LONGEST_GOAL) for part in parts)
    return tuple(dict.fromkeys(text for text in texts if text))


def _usage(usage: dict[str, Any], sonde: dict[str, Any]) -> Usage:
    cost = members(usage.get("cost"))
    told = dollars(cost.get("total_cost")) if cost.get("currency") in (None, "USD") else None
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        reasoning_tokens=count_of(members(usage.get("output_tokens_details")).get("reasoning_tokens")),
        cached_tokens=count_of(members(usage.get("input_tokens_details")).get("cached_tokens")),
        cost=told if told is not None else _amount(sonde.get("upstream_cost")),
    )


def _amount(value: object) -> Decimal | None:
    """A sum of dollars written as text, as Sonde writes it."""
    try:
        return dollars(Decimal(string(value, 30)))
    except InvalidOperation:
        return None
