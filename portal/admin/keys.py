"""API keys in the admin site: the text is shown once, the digest never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.admin.base import KeptAdmin, PersonField, Secret, who
from portal.models.keys import ApiKey, Scope
from portal.services.errors import Invalid
from portal.services.keys import (
    DEFAULT_SCOPES,
    checked_expiry,
    checked_name,
    checked_networks,
    checked_scopes,
    create_key,
    revoke_key,
    rotate_key,
)

Judged = TypeVar("Judged")
LIMITS = ("monthly_cap", "requests_per_minute", "parallel_runs", "chats_per_day")
CHAT = ("prompt_policy", "client_profile", "sources_footer")


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """What can be changed of a key; each field is judged as the service judges it."""

    networks = forms.CharField(
        required=False,
        help_text="Addresses or networks it may be used from, with commas between; empty: any.",
    )

    class Meta:
        model = ApiKey
        fields = ("name", "networks", *LIMITS, *CHAT)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["networks"] = ", ".join(self.instance.networks)

    def clean_name(self) -> str:
        return judged(checked_name, self.cleaned_data["name"])

    def clean_networks(self) -> list[str]:
        return judged(
            checked_networks, [word for word in self.cleaned_data["networks"].split(",") if word.strip()]
        )


class NewKeyForm(KeyForm):
    user = PersonField()
    expires_at = forms.DateTimeField(required=False, help_text="UTC, as in 2027-01-31 12:00; empty: never.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in Scope.values],
        widget=forms.CheckboxSelectMultiple,
        initial=DEFAULT_SCOPES,
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "scopes", "expires_at", "networks", *LIMITS, *CHAT)

    def clean_expires_at(self) -> Any:
        return judged(checked_expiry, self.cleaned_data["expires_at"])

    def clean_scopes(self) -> list[str]:
        user = self.cleaned_data.get("user")
        return judged(checked_scopes, self.cleaned_data["scopes"], user) if user else []


def judged(check: Callable[..., Judged], *values: Any) -> Judged:
    """What the service makes of a value, with its refusal as the form's own."""
    try:
        return check(*values)
    except Invalid as error:
        raise forms.ValidationError(str(error)) from None


@admin.register(ApiKey)
class ApiKeyAdmin(KeptAdmin):
    list_display = ("name", "user", "revoked_at", "last_used_at", "expires_at", "scope_names", "public_id")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), ("expires_at", admin.EmptyFieldListFilter))
    list_select_related = ("user",)
    search_fields = ("name", "public_id", "user__email")
    actions = ("revoke", "rotate")
    fields = (
        "user", "name", "public_id", "scope_names", "networks", *LIMITS, *CHAT,
        "expires_at", "created_at", "last_used_at", "revoked_at",
    )  # fmt: skip
    readonly_fields = (
        "user",
        "public_id",
        "scope_names",
        "expires_at",
        "created_at",
        "last_used_at",
        "revoked_at",
    )

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return super().get_fieldsets(request, obj) if obj else ((None, {"fields": NewKeyForm.Meta.fields}),)

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def get_form(
        self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, form=KeyForm if obj else NewKeyForm, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            return super().save_model(request, obj, form, change)
        made, text = create_key(actor=who(request), **form.cleaned_data)
        obj.pk, obj._state.adding = made.pk, False
        cast(Any, request).secret = Secret(made.name, text)
        return None

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.show_once(request, "A new key", [cast(Any, request).secret])

    @admin.display(description="scopes")
    def scope_names(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.action(description="Revoke: they open nothing from now on")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        self.for_each(request, keys, lambda key: revoke_key(key, actor=who(request)), "revoked")

    @admin.action(description="Rotate: new keys, shown once; the old ones stop at once")
    def rotate(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        secrets: list[Secret] = []

        def rotate_one(key: ApiKey) -> None:
            fresh, text = rotate_key(key, actor=who(request))
            secrets.append(Secret(f"{fresh.name} of {fresh.user}", text))

        self.for_each(request, keys, rotate_one, "rotated")
        return self.show_once(request, "New keys", secrets) if secrets else None
