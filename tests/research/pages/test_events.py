from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from research.models.reports import RunEvent
from research.pages.events import PAGES_SHOWN, Line, lines_of


def line(kind: str, **data: Any) -> Line:
    return lines_of([RunEvent(seq=1, kind=kind, data=data, at=timezone.now())])[0]


@pytest.mark.parametrize(
    ("kind", "data", "words", "tone"),
    [
        ("queued", {}, "Question accepted", ""),
        ("admission_refused", {"message": "credit quota exhausted"}, "Not started", "bad"),
        ("submitting", {"backend": "agent", "again": False}, "Agent API", ""),
        ("submitting", {"backend": "agent", "again": True}, "once more", "warn"),
        ("failover", {"from": "agent", "to": "sonar", "why": "quota"}, "could not take it", "warn"),
        ("waiting", {"seconds": 1, "why": "busy"}, "in 1 second", "warn"),
        ("waiting", {"seconds": 30, "why": "busy"}, "in 30 seconds", "warn"),
        ("running", {"backend": "sonar"}, "Sonar API has begun", ""),
        ("progress", {"queries": ["a"], "pages": []}, "Made 1 search", ""),
        ("progress", {"queries": ["a", "b"], "pages": [{"url": "https://a.org"}]}, "2 searches and", ""),
        ("progress", {"queries": [], "pages": [{"url": "https://a.org"}]}, "Found 1 new page", ""),
        ("progress", {"queries": [], "pages": [], "characters": 1200}, "1,200 characters", ""),
        ("progress", {"queries": [], "pages": [], "percent": 40}, "40 %", ""),
        (
            "progress",
            {"queries": [], "pages": [], "goals": ["Know the moon", "Doubt"]},
            "Know the moon; Doubt",
            "",
        ),
        ("stop_requested", {}, "Stop requested", ""),
        ("stopping", {"reason": "user"}, "Passing the stop on", ""),
        ("stopping", {"reason": "budget"}, "budget is spent", "warn"),
        ("trouble", {"why": "timeout"}, "asking again", "warn"),
        ("completed", {}, "Report delivered", "good"),
        ("incomplete", {}, "what there was", "warn"),
        ("failed", {"message": "no"}, "Failed", "bad"),
        ("cancelled", {}, "Stopped", ""),
        ("a_later_kind", {}, "A later kind", ""),
    ],
)
def test_it_says_every_event_in_words(kind: str, data: dict[str, Any], words: str, tone: str) -> None:
    shown = line(kind, **data)

    assert words in shown.text
    assert shown.tone == tone
    assert shown.icon


@pytest.mark.parametrize("kind", ["failover", "waiting", "trouble"])
def test_it_says_why(kind: str) -> None:
    assert line(kind, why="The upstream is busy.").why == "The upstream is busy."


def test_it_links_only_what_may_be_a_link() -> None:
    pages = [{"url": "javascript:alert(1)", "title": "bad"}, {"url": "https://www.a.org/b", "title": ""}]

    bad, good = line("progress", queries=[], pages=pages).pages

    assert (bad.url, bad.title, bad.host) == ("", "bad", "")
    assert (good.url, good.title, good.host) == ("https://www.a.org/b", "a.org", "a.org")


def test_it_folds_a_long_list_of_pages() -> None:
    pages = [{"url": f"https://a.org/{place}", "title": f"Page {place}"} for place in range(20)]

    shown = line("progress", queries=[], pages=pages)

    assert len(shown.pages) == PAGES_SHOWN
    assert len(shown.more_pages) == 20 - PAGES_SHOWN
