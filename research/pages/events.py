"""A run's events in words: what happened, for somebody who never saw a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.wire.urls import host_label, linkable
from research.models.reports import RunEvent
from research.protocol.backend_names import backend_name

PAGES_SHOWN = 6
"""Pages of one event that are shown before the rest is folded away."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page that was read; `url` is "" when it must not become a link."""

    url: str
    title: str
    host: str


@dataclass(frozen=True, slots=True)
class Line:
    """One event as the timeline shows it. `tone` is good, warn, bad or ""."""

    seq: int
    at: datetime
    icon: str
    text: str
    tone: str = ""
    why: str = ""
    queries: tuple[str, ...] = ()
    pages: tuple[PageLink, ...] = ()
    more_pages: tuple[PageLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """What one kind of event says of its data."""

    icon: str
    text: str
    tone: str = ""
    why: str = ""


Data = Mapping[str, Any]


def lines_of(events: Iterable[RunEvent]) -> list[Line]:
    return [_line(event) for event in events]


def _line(event: RunEvent) -> Line:
    data: Data = event.data
    say = _SENTENCES.get(event.kind)
    words = say(data) if say else Words("info", event.kind.replace("_", " ").capitalize())
    pages = tuple(_page(page) for page in data.get("pages", ()))
    return Line(
        seq=event.seq,
        at=event.at,
        icon=words.icon,
        text=words.text,
        tone=words.tone,
        why=words.why,
        queries=tuple(data.get("queries", ())),
        pages=pages[:PAGES_SHOWN],
        more_pages=pages[PAGES_SHOWN:],
    )


def _page(page: Mapping[str, str]) -> PageLink:
    url = linkable(page.get("url", "")) or ""
    host = host_label(url)
    return PageLink(url, page.get("title") or host or page.get("url", ""), host)


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _submitting(data: Data) -> Words:
    name = backend_name(data.get("backend", ""))
    if data.get("again"):
        return Words("again", f"Handing the question to {name} once more", "warn",
                     "The first attempt may not have arrived. It is charged once.")  # fmt: skip
    return Words("send", f"Handing the question to {name}")


def _failover(data: Data) -> Words:
    before, after = backend_name(data.get("from", "")), backend_name(data.get("to", ""))
    return Words("failover", f"{before} could not take it: trying {after}", "warn", data.get("why", ""))


def _waiting(data: Data) -> Words:
    wait = counted(int(data.get("seconds", 0)), "second", "seconds")
    return Words("clock", f"Trying again in {wait}", "warn", data.get("why", ""))


def _progress(data: Data) -> Words:
    queries, pages = len(data.get("queries", ())), len(data.get("pages", ()))
    if queries and pages:
        searches = counted(queries, "search", "searches")
        return Words("search", f"Made {searches} and found {counted(pages, 'new page', 'new pages')}")
    if queries:
        return Words("search", f"Made {counted(queries, 'search', 'searches')}")
    if pages:
        return Words("page", f"Found {counted(pages, 'new page', 'new pages')}")
    if goals := data.get("goals", ()):
        return Words("search", f"Set out to: {'; '.join(goals)}")
    if data.get("characters"):
        return Words("page", f"Writing: {counted(int(data['characters']), 'character', 'characters')} so far")
    return Words("dive", f"{data['percent']} % done" if data.get("percent") is not None else "Going on")


def _stopping(data: Data) -> Words:
    if data.get("reason") == "budget":
        return Words("clock", "The time budget is spent: asking for what is written so far", "warn")
    return Words("stop", "Passing the stop on")


def _end(icon: str, text: str, tone: str) -> Callable[[Data], Words]:
    return lambda data: Words(icon, text, tone, data.get("message", ""))


_SENTENCES: dict[str, Callable[[Data], Words]] = {
    "queued": lambda data: Words("queue", "Question accepted, credits set aside"),
    "admission_refused": lambda data: Words("cross", "Not started", "bad", data.get("message", "")),
    "submitting": _submitting,
    "failover": _failover,
    "waiting": _waiting,
    "running": lambda data: Words("dive", f"{backend_name(data.get('backend', ''))} has begun the research"),
    "progress": _progress,
    "stop_requested": lambda data: Words("stop", "Stop requested"),
    "stopping": _stopping,
    "trouble": lambda data: Words("warn", "No answer: asking again", "warn", data.get("why", "")),
    "completed": _end("check", "Report delivered", "good"),
    "incomplete": _end("half", "Delivered what there was", "warn"),
    "failed": _end("cross", "Failed", "bad"),
    "cancelled": _end("minus", "Stopped", ""),
}
