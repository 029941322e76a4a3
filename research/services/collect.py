"""From what an upstream delivered to a stored report; and what a run's progress looks like."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from portal.wire.crash import crashpoint
from research.models.reports import Report
from research.models.runs import Run
from research.protocol.outcome import Finished, Options, Order, Running
from research.protocol.receipt import research_receipt
from research.protocol.report import build_report, url_citations
from research.protocol.states import State
from research.services.earlier import earlier_of
from research.services.money import end_run
from research.services.moves import Event

NO_TEXT = "The upstream finished without any text."
SLOWEST = 20_000
"""Characters a second that become a report on a bad day; the worst text takes a fifth of that here."""
AT_A_GLANCE = 60_000
"""Characters that no lease is renewed for."""


def seconds_to_collect(text: str) -> float:
    """How long `collect` may take with this text; 0 when a lease need not be longer for it."""
    return len(text) / SLOWEST if len(text) > AT_A_GLANCE else 0.0


def collect(run: Run, finished: Finished, **changes: Any) -> None:
    """End the run with the report that was delivered, or without one when there is no text."""
    crashpoint("finish.received")
    built = build_report(finished)
    if not built.text.strip():
        end_run(run, State.FAILED, error_message=NO_TEXT, **changes)
        return
    # Loaded with the first report: a start does not need it.
    from portal.services.render import render_markdown  # noqa: PLC0415

    state = State.COMPLETED if finished.complete else State.INCOMPLETE
    report = Report(
        run=run,
        text=built.text,
        html=render_markdown(built.text, built.marks, built.sources),
        thinking=built.thinking,
        sources=[asdict(source) for source in built.sources],
        marks=[asdict(mark) for mark in built.marks],
        annotations=url_citations(built),
        checks=asdict(built.checks),
        notices=list(built.notices),
        queries=[query.text for query in finished.queries],
        receipt=research_receipt(finished),
        usage={
            "input_tokens": finished.usage.input_tokens,
            "output_tokens": finished.usage.output_tokens,
            "reasoning_tokens": finished.usage.reasoning_tokens,
            "cached_tokens": finished.usage.cached_tokens,
            "searches": finished.usage.searches,
        },
        steps=finished.steps,
        upstream_cost=finished.usage.cost,
        model=finished.model,
        incomplete_reason=finished.reason or "",
    )
    if finished.simulated:
        changes["sandbox"] = True
    end_run(run, state, report=report, **changes)


def order_of(run: Run, backend: str) -> Order:
    return Order(
        question=run.question,
        options=Options.of(run.options),
        # `sonar-sdk` is asked for what `sonar` is, unless the preset says otherwise.
        parameters=run.parameters.get(backend) or run.parameters.get(backend.partition("-")[0], {}),
        upstream_key=str(run.upstream_key),
        earlier=earlier_of(run, backend),
    )


def progress_of(known: dict[str, Any], snapshot: Running) -> tuple[dict[str, Any], Event | None]:
    """The stored totals after `snapshot`, and the event that tells what is new in it, if anything."""
    queries = [query.text for query in snapshot.queries]
    titles: dict[str, str] = {}
    for page in snapshot.fetched:
        titles[page.url] = page.title
    for found in snapshot.found:
        titles[found.url] = titles.get(found.url) or found.title
    if not (queries or titles or snapshot.text or snapshot.goals or snapshot.percent is not None):
        return known, None
    counts = {
        "query_count": len(queries),
        "page_count": len(titles),
        "characters": len(snapshot.text),
        "percent": snapshot.percent,
    }
    told = {"eta": snapshot.eta, "goals": list(snapshot.goals)}
    pages = [{"url": url, "title": title} for url, title in titles.items()]
    after = {"queries": queries, "pages": pages, **counts, **{key: told[key] for key in told if told[key]}}
    if after == known:
        return known, None
    news = _news(known, queries, pages)
    if goals := [goal for goal in snapshot.goals if goal not in known.get("goals", ())]:
        news["goals"] = goals
    return after, Event("progress", {**news, **counts})


def _news(known: dict[str, Any], queries: list[str], pages: list[dict[str, str]]) -> dict[str, Any]:
    old_queries = set(known.get("queries", ()))
    old_pages = {page["url"] for page in known.get("pages", ())}
    return {
        "queries": [text for text in queries if text not in old_queries],
        "pages": [page for page in pages if page["url"] not in old_pages],
    }
