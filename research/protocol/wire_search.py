"""What the Perplexity APIs share: search filters as they are asked for, pages as they are listed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from research.protocol.outcome import Fetched, Found, Options
from research.protocol.wire_json import line, members, objects, string

LONGEST_QUERY = 500
LONGEST_TITLE = 300
LONGEST_SNIPPET = 1000
LONGEST_DATE = 40
MOST_NUMBERED = 9999
_ADDRESS = 4000
"""Longer than any usable address: of what is longer a digest tells it from others that begin alike."""


def search_filters(options: Options) -> tuple[dict[str, Any], list[str]]:
    """The filters asked for, and the names of those that cannot be sent with the others.

    Recency must not be combined with dates (perplexity-api §3.2): the dates, more exact, stay.
    """
    filters: dict[str, Any] = {}
    if options.domains:
        filters["search_domain_filter"] = list(options.domains)
    if options.after_date:
        filters["search_after_date_filter"] = options.after_date
    if options.before_date:
        filters["search_before_date_filter"] = options.before_date
    dated = options.after_date or options.before_date
    if options.recency and not dated:
        filters["search_recency_filter"] = options.recency
    return filters, ["search_recency_filter"] if options.recency and dated else []


def read_page(page: dict[str, Any], number: int | None = None) -> Found:
    """One listed page. `number` outside 1..`MOST_NUMBERED` is none that a mark could name."""
    return Found(
        url=_address(page.get("url")),
        title=line(page.get("title"), LONGEST_TITLE),
        snippet=string(page.get("snippet"), LONGEST_SNIPPET).strip(),
        date=line(page.get("date"), LONGEST_DATE) or None,
        number=number if number is not None and 1 <= number <= MOST_NUMBERED else None,
    )


def _address(value: object) -> str:
    address = string(value).strip()
    if len(address) <= _ADDRESS:
        return address
    return f"{address[:_ADDRESS]} {sha256(address.encode()).hexdigest()}"


def read_positions(value: object) -> list[Found]:
    """Pages numbered by their place in the list, from 1. A bare address stands for its page."""
    entries = value if isinstance(value, list) else []
    pages = (members(entry) or {"url": entry} for entry in entries)
    return [read_page(page, place) for place, page in enumerate(pages, 1)]


def read_fetched(value: object) -> list[Fetched]:
    """Pages that the upstream opened: `contents[{url, title, snippet}]`."""
    pages = (read_page(page) for page in objects(value))
    return [Fetched(page.url, page.title, page.snippet) for page in pages]
