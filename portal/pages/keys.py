"""API keys: make one, see it once, rotate it, revoke it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from portal.models.keys import ApiKey, Scope
from portal.models.users import User
from portal.pages.base import page, principal, sentence
from portal.queries import find_key, keys_of
from portal.services.errors import Invalid
from portal.services.keys import DEFAULT_SCOPES, create_key, revoke_key, rotate_key

PAGE = 50
LIVES = {"": "Never", "7": "In 7 days", "30": "In 30 days", "90": "In 90 days", "365": "In a year"}
SCOPES = {
    Scope.RESEARCH: "Ask questions and read the reports",
    Scope.CHAT: "Use chat models",
    Scope.FILES: "Upload and read files",
    Scope.MCP: "Connect agents over MCP",
    Scope.MCP_URL: "Be part of an MCP address, nothing else",
    Scope.ADMIN: "Administer the portal",
}
LARGEST = 2_147_483_647


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key in the one moment in which its text is known."""

    key: ApiKey
    token: str
    rotated: bool = False


@require_http_methods(["GET", "HEAD", "POST"])
@page
def keys(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        return _show(request)
    try:
        key, token = create_key(_user(request), actor=principal(request), **_wanted(request.POST))
    except Invalid as problem:
        return _show(request, problem=problem)
    return _show(request, new=NewKey(key, token))


@require_POST
@page
def rotate(request: HttpRequest, public_id: str) -> HttpResponseBase:
    who = principal(request)
    try:
        key, token = rotate_key(find_key(who.user_id, public_id), actor=who)
    except Invalid as problem:
        messages.error(request, sentence(problem))
        return redirect("keys")
    return _show(request, new=NewKey(key, token, rotated=True))


@require_POST
@page
def revoke(request: HttpRequest, public_id: str) -> HttpResponseBase:
    who = principal(request)
    key = find_key(who.user_id, public_id)
    if revoke_key(key, actor=who):
        messages.success(request, f"“{key.name}” is revoked: it opens nothing from now on.")
    return redirect("keys")


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _wanted(form: QueryDict) -> dict[str, Any]:
    """The form as arguments of `create_key`. Raises Invalid."""
    days = form.get("expires", "")
    if days not in LIVES:
        raise Invalid("choose one of the offered times", "expires")
    return {
        "name": form.get("name", ""),
        "scopes": form.getlist("scopes"),
        "expires_at": timezone.now() + timedelta(days=int(days)) if days else None,
        "networks": form.get("networks", "").replace(",", " ").split(),
        "monthly_cap": _amount(form, "monthly_cap"),
        "requests_per_minute": _count(form, "requests_per_minute"),
        "parallel_runs": _count(form, "parallel_runs"),
    }


def _count(form: QueryDict, field: str) -> int | None:
    text = form.get(field, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST):
        raise Invalid("must be a whole number", field)
    return int(text)


def _amount(form: QueryDict, field: str) -> Decimal | None:
    text = form.get(field, "").strip()
    try:
        amount = Decimal(text) if text else None
    except InvalidOperation:
        raise Invalid("must be a number of credits", field) from None
    if amount is not None and not (amount.is_finite() and 0 <= amount <= LARGEST):
        raise Invalid("must be a number of credits", field)
    return amount


def _show(request: HttpRequest, *, new: NewKey | None = None, problem: Invalid | None = None) -> HttpResponse:
    user = _user(request)
    rows = _page(user, request.GET.get("after"))
    form = request.POST if problem else QueryDict()
    context = {
        "new": new,
        "keys": rows[:PAGE],
        "more": rows[PAGE - 1].public_id if len(rows) > PAGE else "",
        "after": request.GET.get("after"),
        "now": timezone.now(),
        "form": form,
        "lives": LIVES,
        "scopes": _scopes(user, form.getlist("scopes") if problem else DEFAULT_SCOPES),
        "errors": {problem.field or "form": sentence(problem)} if problem else {},
    }
    return render(request, "portal/keys.html", context, status=400 if problem else 200)


def _page(user: User, after: str | None) -> Sequence[ApiKey]:
    """One more than a page holds, newest first; `after` is the last key of the page before."""
    rows = keys_of(user.pk)
    if after:
        last = find_key(user.pk, after)
        rows = rows.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    return list(rows[: PAGE + 1])


def _scopes(user: User, chosen: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Name, meaning, chosen."""
    return [
        (scope.value, meaning, scope.value in chosen)
        for scope, meaning in SCOPES.items()
        if user.is_staff or scope is not Scope.ADMIN
    ]
