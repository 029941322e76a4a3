"""What every page of the admin site shares.

Lists page by fifty, count once and show related rows without asking for each. Whatever an admin
does goes through the services, which audit it; secrets are shown on the page that answers the
click, and are kept in no message, cookie or session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from portal.api.auth import client_address
from portal.models.users import User
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.principal import Principal, principal_of
from portal.services.users import find_user
from portal.wire.errors import Problem


@dataclass(frozen=True, slots=True)
class Secret:
    """Something that is shown once: what it is, and its text."""

    label: str
    text: str


def who(request: HttpRequest) -> Principal:
    """The admin who is logged in."""
    assert isinstance(request.user, User)
    address = client_address(request.headers, request.META.get("REMOTE_ADDR"))
    return principal_of(request.user, address=address, request_id=getattr(request, "request_id", ""))


class PortalAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Only what the page offers: Django takes every column of the row, so that whoever is staff
        could guess at digests letter by letter."""
        offered = (name_of(choice) for choice in self.get_list_filter(request))
        return super().lookup_allowed(lookup, value, request) and any(
            lookup == name or lookup.startswith(f"{name}__") for name in offered
        )

    def tell(self, request: HttpRequest, done: int, what: str) -> None:
        """`3 disabled.`"""
        if done:
            self.message_user(request, f"{done} {what}.", messages.SUCCESS)

    def for_each(
        self, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], what: str
    ) -> None:
        """Do it to every chosen row, and say how many it was done to and what stood in the way."""
        done = 0
        for row in rows:
            try:
                done += act(row) is not False
            except (Invalid, Problem) as error:
                self.message_user(request, f"{row}: {error}", messages.WARNING)
        self.tell(request, done, what)
        if not done:
            self.message_user(request, "Nothing was changed.", messages.INFO)

    def show_once(self, request: HttpRequest, title: str, secrets: list[Secret]) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "title": title, "secrets": secrets}
        context |= {"opts": self.opts}
        return TemplateResponse(request, "admin/shown_once.html", context)

    def ask_first(
        self, request: HttpRequest, rows: QuerySet[Any], form: forms.Form, title: str, button: str
    ) -> HttpResponse:
        """The page between the choice of rows and the act; it posts back to the same action."""
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "button": button,
            "form": form,
            "rows": rows,
            "action": request.POST["action"],
            "checkbox": ACTION_CHECKBOX_NAME,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/ask_first.html", context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Audited, with the names of what was changed and no values."""
        super().save_model(request, obj, form, change)
        name = self.opts.model_name
        action = f"{name}.{'changed' if change else 'created'}"
        audit.record(who(request), action, f"{name}:{obj.pk}", fields=sorted(form.changed_data))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        name = self.opts.model_name
        audit.record(who(request), f"{name}.deleted", f"{name}:{obj.pk}", what=str(obj))
        super().delete_model(request, obj)


class KeptAdmin(PortalAdmin):
    """Rows that are never deleted here."""

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False


class ReadOnlyAdmin(KeptAdmin):
    """Rows that are only looked at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False


def name_of(choice: Any) -> str:
    """The column, or the parameter, of one entry of `list_filter`."""
    if isinstance(choice, str):
        return choice
    return str(choice[0] if isinstance(choice, tuple) else choice.parameter_name)


def given(request: HttpRequest) -> Any:
    """The data of the form between choice and act, once it was sent; None before."""
    return request.POST if "confirmed" in request.POST else None


class AmountForm(forms.Form):
    """How much, why, and a mark that makes a second click do nothing."""

    amount = forms.DecimalField(min_value=0, decimal_places=4, label="Credits for each")
    reason = forms.CharField(max_length=200)
    once = forms.UUIDField(widget=forms.HiddenInput)


class PersonField(forms.CharField):
    """A user by email: a list of all would be long."""

    def __init__(self, **options: Any) -> None:
        super().__init__(label="User", help_text="The user's email.", **options)

    def clean(self, value: Any) -> User:
        try:
            return find_user(super().clean(value))
        except Invalid as error:
            raise forms.ValidationError(str(error)) from None


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=200)
