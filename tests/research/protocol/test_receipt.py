from __future__ import annotations

from research.protocol.outcome import Fetched, Finished, Found, Query
from research.protocol.receipt import research_receipt


def test_it_tells_searches_with_their_pages_and_pages_that_were_read() -> None:
    finished = Finished(
        "x",
        found=(
            Found("https://www.example.com/a", "Page A", number=1),
            Found("https://example.org/b", number=2),
        ),
        queries=(Query("first", ("https://www.example.com/a", "https://example.org/b")), Query("second")),
        fetched=(Fetched("https://www.example.com/a"), Fetched("https://example.net/c", "Page C", "text")),
    )
    assert research_receipt(finished) == {
        "version": 1,
        "queries": [
            {
                "text": "first",
                "results": [
                    {"url": "https://www.example.com/a", "label": "example.com", "title": "Page A"},
                    {"url": "https://example.org/b", "label": "example.org", "title": "example.org"},
                ],
            },
            {"text": "second", "results": []},
        ],
        "sourceInvestigations": [
            {
                "label": "example.com",
                "sources": [{"url": "https://www.example.com/a", "label": "example.com"}],
            },
            {"label": "Page C", "sources": [{"url": "https://example.net/c", "label": "example.net"}]},
        ],
    }


def test_it_leaves_out_addresses_that_must_not_become_links() -> None:
    finished = Finished(
        "x", queries=(Query("q", ("javascript:x", "")),), fetched=(Fetched("file:///etc/passwd"),)
    )
    assert research_receipt(finished) == {
        "version": 1,
        "queries": [{"text": "q", "results": []}],
        "sourceInvestigations": [],
    }
