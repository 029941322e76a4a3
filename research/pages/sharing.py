"""What a team has been given to read: the list of it, giving a run, and taking it back."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from portal.pages.base import page, principal, sentence
from portal.queries import team_of
from portal.services.errors import Invalid
from portal.wire.ids import parse_response_id
from research.pages.runs import PAGE, place_after
from research.queries import list_shared_runs, preset_titles
from research.services.sharing import share_run, take_back_run


@require_safe
@page
def show_shared(request: HttpRequest) -> HttpResponseBase:
    team = team_of(principal(request).user_id)
    if team is None:
        return redirect("team")
    found = list_shared_runs(team, PAGE, place_after(request))
    context = {"team": team, "page": found, "after": request.GET.get("after"), "titles": preset_titles()}
    return render(request, "research/shared.html", context)


@require_POST
@page
def share(request: HttpRequest, public_id: str) -> HttpResponseBase:
    try:
        team = share_run(principal(request), parse_response_id(public_id))
        messages.success(request, f"Everybody in {team.name} can read this now.")
    except Invalid as problem:
        messages.error(request, sentence(problem))
    return redirect("run", public_id)


@require_POST
@page
def take_back(request: HttpRequest, public_id: str) -> HttpResponseBase:
    if take_back_run(principal(request), parse_response_id(public_id)):
        messages.success(request, "Taken back: nobody but you can read this now.")
    return redirect("run", public_id)
