"""All that an answer did on its way: for a report's receipt, where reasoning lines show the first few.

Goals, queries, pages read and pages found come from the same places as the lines (`web_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.protocol.delta import Source
from proxy.protocol.tolerant import items_of, object_of, text_of
from proxy.protocol.web_sources import read_source
from proxy.protocol.web_steps import content_of, goals, queries, step_results

MOST = 2000
"""Entries of a kind that are kept."""


@dataclass(slots=True)
class Trail:
    """Each entry once, in the order of its first mention; pages by their address."""

    goals: dict[str, None] = field(default_factory=dict)
    queries: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)
    found: dict[str, Source] = field(default_factory=dict)

    def note_goals(self, items: Iterable[object]) -> None:
        _add(self.goals, (goal.subject for goal in goals(items)))

    def note_queries(self, items: Iterable[object]) -> None:
        _add(self.queries, (query.subject for query in queries(items)))

    def note_found(self, items: Iterable[object]) -> None:
        for item in items:
            source = read_source(item)
            if source and len(self.found) < MOST:
                self.found.setdefault(source.url, source)

    def note_step(self, step: dict[str, object]) -> None:
        """One step, of `pro_search_steps` or of the `text` list."""
        content = content_of(step)
        if step.get("step_type") == "SEARCH_WEB":
            self.note_queries(items_of(content.get("queries")))
        elif step.get("step_type") == "READ_RESULTS":
            _add(self.read, (text_of(url).strip() for url in items_of(content.get("urls"))))
        self.note_found(step_results(step))

    def note_plan(self, plan: object) -> None:
        """The legacy member of a frame."""
        self.note_goals(items_of(object_of(plan).get("goals")))


def _add(kept: dict[str, None], entries: Iterable[str]) -> None:
    for entry in entries:
        if entry and len(kept) < MOST:
            kept.setdefault(entry)
