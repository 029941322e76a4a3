"""What a run searched and read, as the agent API's `research_receipt` tells it (agent-api §3.1)."""

from __future__ import annotations

from typing import Any

from portal.wire.urls import host_label, linkable, normalise
from research.protocol.outcome import Finished
from research.protocol.sources import listed


def research_receipt(finished: Finished) -> dict[str, Any]:
    """Searches with the pages they brought, then each page that was opened; addresses that must
    not become links are left out."""
    titles = {normalise(page.url): page.title for page in reversed(listed(finished)) if page.title}
    return {
        "version": 1,
        "queries": [
            {"text": query.text, "results": [_result(url, titles) for url in query.urls if linkable(url)]}
            for query in finished.queries
        ],
        "sourceInvestigations": [
            {"label": page.title or host_label(page.url), "sources": [_place(page.url)]}
            for page in finished.fetched
            if linkable(page.url)
        ],
    }


def _place(url: str) -> dict[str, str]:
    return {"url": linkable(url) or "", "label": host_label(url)}


def _result(url: str, titles: dict[str | None, str]) -> dict[str, str]:
    place = _place(url)
    return {**place, "title": titles.get(normalise(url)) or place["label"]}
