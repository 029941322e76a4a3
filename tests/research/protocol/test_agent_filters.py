"""Search filters at the top of a request and inside its `web_search` tool."""

from __future__ import annotations

from typing import Any

import pytest

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields
from research.protocol.filters import Filters, read_search

TWENTY_ONE = [f"site{n}.org" for n in range(21)]


def search(**filters: Any) -> dict[str, Any]:
    return {"tools": [{"type": "web_search", "filters": filters}]}


@pytest.mark.parametrize(
    ("body", "filters"),
    [
        ({}, Filters()),
        ({"search_recency_filter": "week"}, Filters(recency="week")),
        (
            {"search_domain_filter": ["-Pinterest.com", "-pinterest.com"]},
            Filters(domains=("-pinterest.com",)),
        ),
        (
            {"search_domain_filter": ["docs.python.org/3/library"]},
            Filters(domains=("docs.python.org/3/library",)),
        ),
        ({"search_domain_filter": [".gov", "bücher.example"]}, Filters(domains=(".gov", "bücher.example"))),
        ({"search_domain_filter": TWENTY_ONE[:20]}, Filters(domains=tuple(TWENTY_ONE[:20]))),
        ({"search_after_date_filter": "2/29/2024"}, Filters(after_date="02/29/2024")),
        (search(search_recency_filter="day"), Filters(recency="day")),
        (
            search(search_domain_filter=["a.org"], search_before_date_filter="01/02/2026"),
            Filters(domains=("a.org",), before_date="01/02/2026"),
        ),
        ({"search_recency_filter": "day", **search(search_recency_filter="day")}, Filters(recency="day")),
        (
            {"search_after_date_filter": "01/01/2026", **search(search_before_date_filter="02/01/2026")},
            Filters(after_date="01/01/2026", before_date="02/01/2026"),
        ),
        (
            {
                "tools": [
                    {"type": "web_search_preview_2026_03_11", "filters": {"search_recency_filter": "year"}}
                ]
            },
            Filters(recency="year"),
        ),
    ],
)
def test_it_reads_filters_wherever_they_stand(body: dict[str, Any], filters: Filters) -> None:
    assert read_search(Fields(body)) == (filters, [])


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"search_domain_filter": "a.org"}, "search_domain_filter", "must be a list"),
        ({"search_domain_filter": TWENTY_ONE}, "search_domain_filter", "must have at most 20 entries"),
        ({"search_domain_filter": [1]}, "search_domain_filter[0]", "must be a string"),
        (
            {"search_domain_filter": ["a.org", "https://b.org"]},
            "search_domain_filter[1]",
            "must be a domain like example.org, or -example.org to exclude it",
        ),
        (
            {"search_domain_filter": ["-"]},
            "search_domain_filter[0]",
            "must be a domain like example.org, or -example.org to exclude it",
        ),
        (
            {"search_domain_filter": ["a b.org"]},
            "search_domain_filter[0]",
            "must be a domain like example.org, or -example.org to exclude it",
        ),
        ({"search_domain_filter": ["x" * 255]}, "search_domain_filter[0]", "must be at most 254 characters"),
        (
            {"search_domain_filter": ["a.org", "-b.org"]},
            "search_domain_filter",
            "must either name domains or exclude them with '-', not both",
        ),
        (
            {"search_after_date_filter": "2026-01-31"},
            "search_after_date_filter",
            "must be a date as MM/DD/YYYY",
        ),
        (
            {"search_after_date_filter": "31/01/2026"},
            "search_after_date_filter",
            "must be a date as MM/DD/YYYY",
        ),
        (
            {"search_before_date_filter": "02/29/2026"},
            "search_before_date_filter",
            "must be a date as MM/DD/YYYY",
        ),
        (
            {"search_before_date_filter": "01/01/0000"},
            "search_before_date_filter",
            "must be a date as MM/DD/YYYY",
        ),
        ({"search_before_date_filter": 5}, "search_before_date_filter", "must be a string"),
        (
            {"search_after_date_filter": "02/01/2026", "search_before_date_filter": "01/01/2026"},
            "search_after_date_filter",
            "must be earlier than search_before_date_filter",
        ),
        (
            {"search_after_date_filter": "12/31/2025", "search_before_date_filter": "12/31/2025"},
            "search_after_date_filter",
            "must be earlier than search_before_date_filter",
        ),
        (
            {"search_recency_filter": "day", "search_after_date_filter": "01/01/2026"},
            "search_recency_filter",
            "cannot be combined with date filters",
        ),
        (
            search(search_recency_filter="now"),
            "tools[0].filters.search_recency_filter",
            "must be one of: hour, day, week, month, year",
        ),
        (
            {"search_recency_filter": "day", **search(search_recency_filter="week")},
            "tools[0].filters",
            "contradicts a filter given elsewhere in the request.",
        ),
        ({"tools": ["web_search"]}, "tools[0]", "must be an object"),
        ({"tools": [{"type": 3}]}, "tools[0].type", "must be a string"),
        ({"tools": [{"type": "web_search", "filters": []}]}, "tools[0].filters", "must be an object"),
        ({"tools": [{}] * 129}, "tools", "must have at most 128 entries"),
    ],
)
def test_it_names_the_filter_that_is_wrong(body: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_search(Fields(body))
    assert (caught.value.param, caught.value.message) == (param, f"{param} {message}")


def test_it_orders_dates_by_year_first() -> None:
    body = {"search_after_date_filter": "12/31/2025", "search_before_date_filter": "01/01/2026"}
    assert read_search(Fields(body))[0].before_date == "01/01/2026"


def test_it_tells_which_tools_and_settings_it_has_no_use_for() -> None:
    tools = [
        {"type": "web_search", "search_context_size": "high", "filters": {"allowed_domains": ["a.org"]}},
        {"type": "fetch_url"},
        {"type": "code_interpreter", "container": {}},
        {},
    ]
    assert read_search(Fields({"tools": tools}))[1] == [
        "tools[0].search_context_size",
        "tools[0].filters.allowed_domains",
        "tools[2]",
        "tools[3]",
    ]
