"""Runs as the pages show them: where a live one stands, what a finished one left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.text import Truncator

from portal.services.render import Heading, contents_of
from portal.wire.urls import host_label
from research.models.reports import Report
from research.models.runs import Run
from research.pages.events import counted
from research.protocol.backend_names import backend_name
from research.protocol.states import State

LONG_QUESTION = 160
"""A question longer than this is no heading: it is shown as text."""
TAB_WORDS = {
    "queued": "Queued",
    "in_progress": "Researching",
    "incomplete": "Incomplete",
    "failed": "Failed",
    "cancelled": "Stopped",
}
"""What stands before the question in the browser's tab; nothing when the report is there."""
PROVENANCE = {
    "cited": "The report cites this source.",
    "retrieved": "The research found this source; the report does not cite it.",
    "recovered": "Found as a link in the report’s text; the upstream did not list it.",
}


@dataclass(frozen=True, slots=True)
class Gauge:
    """Where a live run stands. Lengths are seconds, `awaited` says what has to happen next."""

    elapsed: float
    usual: int
    budget: int
    awaited: str
    stopping: bool
    queries: int
    pages: int
    characters: int
    percent: int | None
    eta: int | None = None
    """What the upstream says is still to go."""

    @property
    def summary(self) -> str:
        """One sentence for a screen reader; the same as long as nothing moves."""
        searches, pages = counted(self.queries, "search", "searches"), counted(self.pages, "page", "pages")
        return f"{self.awaited} {searches}, {pages} so far."


@dataclass(frozen=True, slots=True)
class SourceRow:
    number: int
    url: str
    title: str
    host: str
    provenance: str
    means: str
    snippet: str
    date: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the receipt."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the contents."""

    id: str
    text: str
    deeper: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A report with all that stands around it."""

    report: Report
    contents: list[Entry]
    sources: list[SourceRow]
    notices: list[str]
    checks: list[str]
    facts: list[Fact]
    queries: list[Mapping[str, Any]]
    opened: list[Mapping[str, Any]]


def tab_title(run: Run) -> str:
    word = TAB_WORDS.get(run.status)
    return f"{word}: {run.title}" if word else run.title


def gauge_of(run: Run, now: datetime) -> Gauge:
    progress = run.progress
    return Gauge(
        elapsed=max((now - run.created_at).total_seconds(), 0),
        usual=max(run.usual_seconds, 1),
        budget=run.time_budget,
        awaited=_awaited(run),
        stopping=_is_stopping(run),
        queries=progress.get("query_count", 0),
        pages=progress.get("page_count", 0),
        characters=progress.get("characters", 0),
        percent=progress.get("percent"),
        eta=progress.get("eta"),
    )


def _is_stopping(run: Run) -> bool:
    return run.cancel_requested_at is not None or State(run.state) is State.CANCELLING


def _awaited(run: Run) -> str:
    name = backend_name(run.backend)
    if run.stop_reason == "budget":
        return "The time is up: collecting what was written."
    if _is_stopping(run):
        return "Stopping."
    if run.faults:
        return f"Waiting for {name} to answer again."
    return {
        State.QUEUED: "Waiting for a free worker.",
        State.SUBMITTING: f"Waiting for {name} to take the question.",
    }.get(State(run.state), f"Waiting for {name} to finish its research.")


def report_of(run: Run) -> Shown | None:
    report: Report | None = getattr(run, "report", None)
    if report is None:
        return None
    return Shown(
        report=report,
        contents=_contents(report.html),
        sources=[_source(source) for source in report.sources],
        notices=report.notices,
        checks=_checks(report.checks),
        facts=_facts(run, report),
        queries=report.receipt.get("queries", []),
        opened=[
            source
            for found in report.receipt.get("sourceInvestigations", [])
            for source in found.get("sources", [])
        ],
    )


def _contents(html: str) -> list[Entry]:
    """Two levels of headings; a single one above all others is the report's title, not a part of it."""
    headings = contents_of(html)
    if len({heading.level for heading in headings}) > 1 and _is_title(headings):
        headings = headings[1:]
    top = min((heading.level for heading in headings), default=0)
    shown = (heading for heading in headings if heading.level <= top + 1)
    return [Entry(heading.id, heading.text, heading.level > top) for heading in shown]


def _is_title(headings: list[Heading]) -> bool:
    first = headings[0].level
    return all(heading.level > first for heading in headings[1:])


def _source(source: Mapping[str, Any]) -> SourceRow:
    url, title = source.get("url", ""), source.get("title", "")
    host = host_label(url)
    return SourceRow(
        number=source["number"],
        url=url,
        # A page that nobody named is told from others of its host by its address.
        title=title if title and title != host else url.partition("://")[2] or host,
        host=host,
        provenance=source["provenance"],
        means=PROVENANCE.get(source["provenance"], ""),
        snippet=source.get("snippet", ""),
        date=source.get("date") or "",
    )


def _checks(checks: Mapping[str, Any]) -> list[str]:
    """What does not fit between text and sources, as sentences; of bad marks a notice tells already."""
    unlisted, unused = checks.get("unlisted") or [], checks.get("unused") or []
    found = [f"Links in the text that the research did not list: {_some(unlisted)}."] if unlisted else []
    if unused:
        found.append(f"{counted(len(unused), 'source was', 'sources were')} found but not cited.")
    return found


def _some(values: Iterable[Any], most: int = 5) -> str:
    shown = [Truncator(value).chars(80) for value in values]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def cost_of(run: Run) -> Decimal:
    """Credits the run cost in the end: nothing when nothing was delivered."""
    cost: Decimal = run.credits_charged - run.credits_refunded
    return cost


def _facts(run: Run, report: Report) -> list[Fact]:
    usage = report.usage
    facts = [
        Fact("Answered by", backend_name(run.backend) + (" (simulated)" if run.sandbox else "")),
        Fact("Model", report.model),
        Fact("Steps", f"{report.steps:,}" if report.steps else ""),
        Fact("Tokens read", _tokens(usage.get("input_tokens"))),
        Fact("Tokens written", _tokens(usage.get("output_tokens"))),
        Fact("Upstream cost", f"${report.upstream_cost.normalize():f}" if report.upstream_cost else ""),
    ]
    return [fact for fact in facts if fact.value]


def _tokens(count: int | None) -> str:
    return f"{count:,}" if count else ""
