"""The library: all runs and chats that one may see, looked through by words, filters and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from portal.pages.base import page, principal, sentence
from portal.services.errors import Invalid
from research.protocol.searching import query_of
from research.services.library import LONGEST_TAG, MOST_TAGS, labels, look, tag, tag_name, untag
from research.services.library_search import Place, Wanted, place_of

PAGE = 30
LONGEST_SEARCH = 300
"""Characters of what is searched for."""
KINDS = {"run": "Research", "chat": "Chats", "shared": "Shared with the team"}
STATUSES = {
    "live": "Under way",
    "completed": "Completed",
    "incomplete": "Incomplete",
    "cancelled": "Stopped",
    "failed": "Failed",
}
FILTERS = ("kind", "status", "label", "tag", "since", "until")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form says, each as it is shown again."""

    q: str
    kind: str
    status: str
    label: str
    tag: str
    since: date | None
    until: date | None
    zone: str

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in FILTERS)

    @property
    def wanted(self) -> Wanted:
        zone = _zone(self.zone)
        return Wanted(
            query=query_of(self.q) if self.q else None,
            kind=self.kind,
            status=self.status,
            label=self.label,
            tag=self.tag,
            since=_midnight(self.since, zone) if self.since else None,
            until=_midnight(self.until + timedelta(days=1), zone) if self.until else None,
        )

    def address(self, **changes: str) -> str:
        """The library's address with all of this, but for what is changed; "" leaves out."""
        values = {name: getattr(self, name) for name in ("q", *FILTERS, "zone")} | changes
        if not (values["since"] or values["until"]):
            values["zone"] = ""
        said = urlencode({name: value for name, value in values.items() if value})
        return reverse("library") + (f"?{said}" if said else "")


@require_safe
@page
def show(request: HttpRequest) -> HttpResponseBase:
    asked = _asked(request.GET)
    found = look(principal(request), asked.wanted, PAGE, _after(request))
    presets, models = labels()
    context = {
        "asked": asked,
        "found": found,
        "after": request.GET.get("after", ""),
        "newest": asked.address(),
        "older": asked.address(after=str(found.next)) if found.next else "",
        "without_filters": asked.address(**dict.fromkeys(FILTERS, "")),
        "here": request.get_full_path(),
        "kinds": KINDS if found.team else {name: KINDS[name] for name in ("run", "chat")},
        "statuses": STATUSES,
        "presets": presets,
        "models": models,
        "titles": presets | models,
        "longest_tag": LONGEST_TAG,
        "most_tags": MOST_TAGS,
    }
    return render(request, "research/library.html", context)


@require_POST
@page
def change_tags(request: HttpRequest, item: UUID) -> HttpResponseBase:
    """Add the tag that was typed, or take off the one whose button was pressed."""
    who = principal(request)
    try:
        if removed := str(request.POST.get("remove", "")):
            untag(who, item, removed)
        else:
            tag(who, item, str(request.POST.get("tag", "")))
    except Invalid as problem:
        messages.error(request, sentence(problem))
    return _back(request, item)


def _back(request: HttpRequest, item: UUID) -> HttpResponseBase:
    """To the list that was looked at, and there to the line."""
    came_from = QueryDict(str(request.POST.get("list", ""))[:2000].partition("?")[2], mutable=True)
    place = {"after": str(came_from.get("after", ""))} if _place(came_from.get("after", "")) else {}
    return redirect(f"{_asked(came_from).address(**place)}#item-{item.hex}")


def _asked(values: Mapping[str, str]) -> Asked:
    """Of what cannot be meant nothing is left."""

    def text(name: str, longest: int = 80) -> str:
        return str(values.get(name, "")).replace("\0", "").strip()[:longest]

    kind, status = text("kind"), text("status")
    return Asked(
        q=text("q", LONGEST_SEARCH),
        kind=kind if kind in KINDS else "",
        status=status if status in STATUSES else "",
        label=text("label"),
        tag=tag_name(text("tag", LONGEST_TAG)),
        since=_day(text("since")),
        until=_day(text("until")),
        zone=text("zone"),
    )


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1970 < day.year < 9000 else None


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def _zone(name: str) -> tzinfo:
    """Days are the reader's own where a script has told which; else they are days of UTC."""
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        return UTC


def _after(request: HttpRequest) -> Place | None:
    """Where the page before ended. Raises Http404 for what is no such place."""
    text = request.GET.get("after", "")
    place = _place(text)
    if text and place is None:
        raise Http404
    return place


def _place(text: str) -> Place | None:
    return place_of(text) if text else None
