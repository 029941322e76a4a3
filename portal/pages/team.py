"""The team: who belongs to it, what it shares, and, for its leads, who comes and goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from portal.models.ledger import CreditAccount
from portal.models.teams import Invitation, Membership, Team
from portal.pages.base import page, principal, sentence
from portal.queries import (
    admin_emails,
    find_invitation_to,
    find_member,
    invitations_to,
    members_of,
    team_of,
)
from portal.services.errors import Invalid
from portal.services.invitations import create_invitation, revoke_invitation
from portal.services.principal import Principal
from portal.services.teams import is_needed, leave_team, may_manage, remove_member, set_role
from portal.wire.errors import Forbidden

PAGE = 50
NUMBER = re.compile(r"[0-9]{1,18}")
ROLES = {
    Membership.Role.MEMBER: "Member: uses the team’s credits",
    Membership.Role.LEAD: "Lead: also invites and removes",
}


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation in the one moment in which its link is known."""

    invitation: Invitation
    link: str


@require_http_methods(["GET", "HEAD", "POST"])
@page
def team(request: HttpRequest) -> HttpResponseBase:
    """The page; a POST invites somebody."""
    who = principal(request)
    if request.method == "POST":
        return _invite(request, _managed(who))
    own = team_of(who.user_id)
    if own is None:
        return render(request, "portal/no_team.html", {"admins": admin_emails()})
    return _show(request, own)


@require_POST
@page
def change_role(request: HttpRequest, member: int) -> HttpResponseBase:
    who = principal(request)
    row, role = find_member(_managed(who), member), request.POST.get("role", "")
    what = "leads the team now" if role == Membership.Role.LEAD else "is a member now, and no lead"
    return _changed(request, lambda: set_role(who, row, role), f"{_name(row)} {what}.")


@require_POST
@page
def remove(request: HttpRequest, member: int) -> HttpResponseBase:
    who = principal(request)
    row = find_member(_managed(who), member)
    return _changed(request, lambda: remove_member(who, row), f"{_name(row)} is no longer in the team.")


@require_POST
@page
def leave(request: HttpRequest) -> HttpResponseBase:
    who = principal(request)
    own = team_of(who.user_id)
    if own is None:
        return redirect("team")
    return _changed(request, lambda: leave_team(who, own), f"You are no longer in {own.name}.")


def _changed(request: HttpRequest, change: Callable[[], bool], told: str) -> HttpResponse:
    """Back to the page, which tells what was done, if anything was, or why nothing could be."""
    try:
        if change():
            messages.success(request, told)
    except Invalid as problem:
        messages.error(request, sentence(problem))
    return redirect("team")


@require_POST
@page
def revoke(request: HttpRequest, invitation: int) -> HttpResponseBase:
    who = principal(request)
    if revoke_invitation(who, find_invitation_to(_managed(who), invitation)):
        messages.success(request, "The invitation is taken back: its link opens nothing from now on.")
    return redirect("team")


def _managed(who: Principal) -> Team:
    """One's team, for those who may change it: others are told no more than that they may not."""
    own = team_of(who.user_id)
    if own is None or not may_manage(who, own):
        raise Forbidden("Only a lead of a team or an admin can do this.")
    return own


def _invite(request: HttpRequest, own: Team) -> HttpResponse:
    form = request.POST
    try:
        invitation, token = create_invitation(
            principal(request),
            own,
            email=form.get("email", ""),
            role=form.get("role", Membership.Role.MEMBER),
        )
    except Invalid as problem:
        return _show(request, own, problem=problem)
    link = settings.PUBLIC_URL + reverse("invite", args=[token])
    return _show(request, own, new=NewInvitation(invitation, link))


def _show(
    request: HttpRequest, own: Team, *, new: NewInvitation | None = None, problem: Invalid | None = None
) -> HttpResponse:
    who = principal(request)
    manages = may_manage(who, own)
    rows = _page(own, request.GET.get("after"))
    context = {
        "team": own,
        "pool": CreditAccount.objects.filter(team=own).first(),
        "people": own.memberships.count(),
        "members": rows[:PAGE],
        "more": rows[PAGE - 1].pk if len(rows) > PAGE else "",
        "after": request.GET.get("after"),
        "manages": manages,
        "needed": is_needed(who.user_id, own),
        "invitations": list(invitations_to(own)) if manages else [],
        "new": new,
        "roles": ROLES,
        "form": request.POST if problem else QueryDict(),
        "errors": {problem.field or "form": sentence(problem)} if problem else {},
    }
    return render(request, "portal/team.html", context, status=400 if problem else 200)


def _page(own: Team, after: str | None) -> Sequence[Membership]:
    """One more than a page holds; `after` is the last member of the page before."""
    rows = members_of(own)
    if after:
        last = find_member(own, int(after) if NUMBER.fullmatch(after) else 0)
        rows = rows.filter(Q(role__gt=last.role) | Q(role=last.role, pk__gt=last.pk))
    return list(rows[: PAGE + 1])


def _name(member: Membership) -> str:
    return member.user.name or member.user.email
