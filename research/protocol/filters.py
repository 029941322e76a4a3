"""Search filters of a request, wherever it puts them: at its top, or inside a `web_search` tool.

Both upstreams accept wrong filters in silence and then search for nothing (perplexity-api §3.2,
§5.3), so they are checked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import fields as members
from datetime import date
from typing import Literal

from portal.wire.errors import BadRequest
from portal.wire.fields import Fields

Recency = Literal["hour", "day", "week", "month", "year"]
RECENCIES: tuple[Recency, ...] = ("hour", "day", "week", "month", "year")
MOST_DOMAINS = 20
LONGEST_DOMAIN = 253
MOST_TOOLS = 128
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})", re.ASCII)
_DOMAIN = re.compile(r"[^\s/:@?#\\,]+(?:/[^\s?#\\,]*)?")

READ_KINDS = frozenset({"web_search", "fetch_url"})
"""Tools that research uses anyway; a research run can be given no others."""
UNREAD_SETTINGS = (
    "search_context_size",
    "search_type",
    "user_location",
    "max_results",
    "max_tokens",
    "max_tokens_per_page",
    "max_urls",
    "allowed_domains",
    "last_updated_after_filter",
    "last_updated_before_filter",
)


@dataclass(frozen=True, slots=True)
class Filters:
    recency: Recency | None = None
    domains: tuple[str, ...] = ()
    """Without scheme, lower case; all to be searched, or all to be left out (`-`)."""
    after_date: str | None = None
    before_date: str | None = None


def read_search(body: Fields) -> tuple[Filters, list[str]]:
    """The filters of the whole request, and the settings in `tools` that research has no use for."""
    found, ignored = read_filters(body), []
    for index, value in enumerate(body.items("tools", most=MOST_TOOLS)):
        tool = body.member(f"tools[{index}]", value)
        if _kind(tool) not in READ_KINDS:
            ignored.append(body.param(f"tools[{index}]"))
            continue
        inner = tool.inner("filters")
        found = _joined(found, read_filters(inner), body.param(f"tools[{index}].filters"))
        ignored += [of.param(name) for of in (tool, inner) for name in UNREAD_SETTINGS if of.given(name)]
    _check_times(body, found)
    return found, ignored


def read_filters(of: Fields) -> Filters:
    return Filters(
        recency=of.choice("search_recency_filter", RECENCIES),
        domains=_domains(of, "search_domain_filter"),
        after_date=_date(of, "search_after_date_filter"),
        before_date=_date(of, "search_before_date_filter"),
    )


def _kind(tool: Fields) -> str:
    """OpenAI dates its names (`web_search_2025_08_26`, `web_search_preview`): one kind for all."""
    kind = tool.text("type", longest=100) or ""
    return "web_search" if kind.startswith("web_search") else kind


def _joined(first: Filters, second: Filters, param: str) -> Filters:
    """What either says; a filter that is given twice must say the same twice."""
    for member in members(Filters):
        one, other = getattr(first, member.name), getattr(second, member.name)
        if one and other and one != other:
            raise BadRequest(f"{param} contradicts a filter given elsewhere in the request.", param=param)
    return Filters(
        recency=first.recency or second.recency,
        domains=first.domains or second.domains,
        after_date=first.after_date or second.after_date,
        before_date=first.before_date or second.before_date,
    )


def _domains(of: Fields, name: str) -> tuple[str, ...]:
    found = [
        _domain(of, f"{name}[{index}]", value)
        for index, value in enumerate(of.items(name, most=MOST_DOMAINS))
    ]
    if len({domain.startswith("-") for domain in found}) > 1:
        raise of.refuse(name, "must either name domains or exclude them with '-', not both")
    return tuple(dict.fromkeys(found))


def _domain(of: Fields, place: str, value: object) -> str:
    text = of.check_text(place, value, LONGEST_DOMAIN + 1).strip().lower()
    if not _DOMAIN.fullmatch(text.removeprefix("-")):
        raise of.refuse(place, "must be a domain like example.org, or -example.org to exclude it")
    return text


def _date(of: Fields, name: str) -> str | None:
    """MM/DD/YYYY with both zeros."""
    text = of.word(name, longest=10)
    if text is None:
        return None
    match = _DATE.fullmatch(text)
    if match is None or not _is_day(*map(int, match.groups())):
        raise of.refuse(name, "must be a date as MM/DD/YYYY")
    month, day, year = match.groups()
    return f"{int(month):02}/{int(day):02}/{year}"


def _is_day(month: int, day: int, year: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _check_times(body: Fields, found: Filters) -> None:
    after, before = found.after_date, found.before_date
    if found.recency and (after or before):
        raise body.refuse("search_recency_filter", "cannot be combined with date filters")
    if after and before and _sortable(after) >= _sortable(before):
        raise body.refuse("search_after_date_filter", "must be earlier than search_before_date_filter")


def _sortable(text: str) -> str:
    return f"{text[6:]}/{text[:5]}"
