"""The first page: ask a question."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from portal.pages.base import page, principal
from portal.queries import admin_emails
from portal.services.ledger import balance_of
from portal.services.limits import admit_request
from portal.services.principal import Principal
from portal.wire.errors import NotFound, Problem
from portal.wire.ids import parse_response_id
from proxy.protocol.attachments import ENDINGS, LARGEST, MOST
from research.models.runs import Run
from research.pages.asking import FILES, Asking, asking_of, errors_of, new_asking, read_asking
from research.pages.attaching import start
from research.queries import enabled_presets, find_run, list_runs, usual_times

RECENT = 6
DEEPEST = 5
"""Icons there are for the depth of a preset."""
EXAMPLES = (
    "What does the evidence say about four-day work weeks and productivity?",
    "Which European cities have cut car traffic most since 2015, and how?",
    "Compare sodium-ion and lithium iron phosphate batteries for home storage.",
    "What changed in EU rules on AI models this year, and who has to act?",
)


@dataclass(frozen=True, slots=True)
class Depth:
    """A preset as a choice: `usual` in seconds, `icon` the depth that is drawn for it."""

    name: str
    title: str
    summary: str
    usual: int
    budget: int
    price: Decimal
    icon: str
    chosen: bool


@require_http_methods(["GET", "HEAD", "POST"])
@page
def ask(request: HttpRequest) -> HttpResponseBase:
    who = principal(request)
    if request.method != "POST":
        return _show(request, who, _first_asking(request, who))
    asking = read_asking(request.POST.dict())
    try:
        admit_request(who)
        started = start(who, asking, request.FILES.getlist(FILES))
    except Problem as problem:
        return _show(request, who, asking, problem)
    if started.replayed:
        messages.info(request, "You have asked this before: here it is.")
    return redirect("run", started.run.public_id)


def _first_asking(request: HttpRequest, who: Principal) -> Asking:
    """An empty form, or one filled in from an example, an earlier run, or one to follow up."""
    again = _own_run(who, request.GET.get("again", ""))
    if again is not None:
        return asking_of(again)
    return new_asking(request.GET.get("q", ""), request.GET.get("previous", ""))


def _show(
    request: HttpRequest, who: Principal, asking: Asking, problem: Problem | None = None
) -> HttpResponse:
    depths = _depths(asking.preset)
    balance = balance_of(who.user_id)
    chosen = next((depth for depth in depths if depth.chosen), None)
    recent = list_runs(who, RECENT)
    context = {
        "asking": asking,
        "depths": depths,
        "chosen": chosen,
        "balance": balance,
        "short": chosen is not None and balance.available < chosen.price,
        "admins": admin_emails(),
        "previous": _own_run(who, asking.previous),
        "recent": recent,
        "titles": {depth.name: depth.title for depth in depths},
        "examples": EXAMPLES,
        "errors": errors_of(problem) if problem else {},
        "file_endings": ",".join(ENDINGS),
        "most_files": MOST,
        "most_megabytes": LARGEST // 1024**2,
        "chose_files": bool(request.FILES),
    }
    return render(request, "research/ask.html", context, status=problem.status if problem else 200)


def _depths(preset: str) -> list[Depth]:
    presets = enabled_presets()
    names = [known.name for known in presets]
    usual = usual_times(presets)
    wanted = preset if preset in names else next((known.name for known in presets if known.is_default), "")
    return [
        Depth(
            name=known.name,
            title=known.title,
            summary=known.summary,
            usual=usual[known.name],
            budget=known.time_budget,
            price=known.price,
            icon=f"depth-{min(place, DEEPEST)}",
            chosen=known.name == wanted,
        )
        for place, known in enumerate(presets, start=1)
    ]


def _own_run(who: Principal, public_id: str) -> Run | None:
    """The run that is named; one that is not the person's is as if none were."""
    try:
        return find_run(who, parse_response_id(public_id)) if public_id else None
    except NotFound:
        return None
