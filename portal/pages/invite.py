"""The page behind an invitation's link: choose a password, and be in.

Somebody who is logged in and in no team joins with a click; nobody leaves a team this way."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.models.teams import Invitation
from portal.pages.base import principal
from portal.queries import team_of
from portal.services.errors import Invalid
from portal.services.invitations import accept_invitation, find_invitation, join_team

BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def invite(request: HttpRequest, token: str) -> HttpResponse:
    """404 with the page's own words for a link that was used, has ended or never was."""
    invitation = find_invitation(token)
    if invitation is None:
        return render(request, "portal/invite.html", status=404)
    if request.method != "POST":
        return _show(request, invitation)
    if request.user.is_authenticated:
        return _join(request, invitation, token)
    try:
        user = accept_invitation(
            token,
            email=request.POST.get("email", ""),
            name=request.POST.get("name", ""),
            password=request.POST.get("password", ""),
        )
    except Invalid as problem:
        return _show(request, invitation, problem)
    login(request, user, backend=BACKEND)
    return redirect("/")


def _join(request: HttpRequest, invitation: Invitation, token: str) -> HttpResponse:
    try:
        team = join_team(principal(request), token)
    except Invalid as problem:
        return _show(request, invitation, problem)
    messages.success(request, f"You are in {team.name} now.")
    return redirect("team")


def _show(request: HttpRequest, invitation: Invitation, problem: Invalid | None = None) -> HttpResponse:
    context = {
        "own": team_of(request.user.pk) if request.user.is_authenticated else None,
        "invitation": invitation,
        "email": invitation.email or request.POST.get("email", ""),
        "name": request.POST.get("name", ""),
        "errors": {problem.field or "form": f"{problem}"} if problem else {},
    }
    return render(request, "portal/invite.html", context, status=400 if problem else 200)
