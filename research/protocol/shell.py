"""How a run looks on a terminal: a progress line, a report, an exit code. Pure."""

from __future__ import annotations

from typing import Any

from portal.wire.amounts import plain
from portal.wire.controls import in_lines, in_one_line
from research.protocol.answer import ReportView, RunView

EXIT_CODES = {"completed": 0, "failed": 1, "incomplete": 3, "cancelled": 4}
"""2 is kept for wrong usage, 130 for a person who stopped watching."""
AWAITED = {"queued": "waiting for a worker", "in_progress": "researching"}


def exit_code(status: str) -> int:
    return EXIT_CODES.get(status, 1)


def progress_line(progress: dict[str, Any], status: str, elapsed: int, usual: int) -> tuple[str, str]:
    """(what is going on, the clock). `elapsed` and `usual` are seconds."""
    words = [AWAITED.get(status, status)]
    for name, one, many in (
        ("query_count", "search", "searches"),
        ("page_count", "page", "pages"),
        ("characters", "character written", "characters written"),
    ):
        count = progress.get(name)
        if count:
            words.append(f"{count} {one if count == 1 else many}")
    return ", ".join(words), f"{clock(elapsed)} of about {clock(usual)}"


def outcome(view: RunView) -> str:
    """How an ended run ended and what it cost, in a line."""
    return in_one_line(f"{_ending(view)}. {_charge(view)}.")


def _ending(view: RunView) -> str:
    if view.error_message:
        return view.error_message.rstrip(".")
    if view.report is None:
        return f"The run is {view.status}"
    reason = view.report.incomplete_reason.replace("_", " ")
    count = len(view.report.sources)
    found = "1 source" if count == 1 else f"{count} sources"
    return f"The report is {view.status}{f' ({reason})' if reason else ''}: {found}"


def _charge(view: RunView) -> str:
    amount = view.credits_charged - view.credits_refunded
    if not amount:
        return "Nothing was charged"
    return f"{plain(amount)} {'credit was' if amount == 1 else 'credits were'} charged"


def clock(seconds: int) -> str:
    minutes, rest = divmod(max(seconds, 0), 60)
    return f"{minutes}:{rest:02}"


def report_text(view: RunView) -> str:
    """The report in Markdown, then its sources and whatever a reader must know; "" without one.

    It was made of other people's pages: no terminal takes a command from it.
    """
    report = view.report
    if report is None:
        return ""
    said = (*report.notices, *view.notes)
    parts = [report.text.rstrip(), *_sources(report), *(f"> {line}" for line in said)]
    if view.sandbox:
        parts.append("> Sandbox: this report is simulated. No research was made.")
    return in_lines("\n\n".join(parts))


def _sources(report: ReportView) -> list[str]:
    if not report.sources:
        return []
    lines = [
        f"{source.number}. {source.title or source.url} <{source.url}> ({source.provenance})"
        for source in report.sources
    ]
    return ["## Sources", "\n".join(lines)]
