"""Runs, presets and backends in the admin site."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from portal.admin.base import KeptAdmin, PortalAdmin, ReadOnlyAdmin, who
from portal.services import audit
from portal.wire.ids import parse_response_id
from research.backends.table import BACKENDS
from research.models.backends import BackendPolicy
from research.models.presets import Preset
from research.models.runs import Run
from research.protocol.states import State
from research.services.cancel import cancel_any_run
from research.services.start import retry_run

FIELDS = (
    (None, ("public_id", "user", "state", "question", "error_message", "notes")),
    ("Asked for", ("preset", "options", "metadata", "ignored", "previous", "previous_chat", "retry_of")),
    ("Credits", ("price", "charge_cancelled", "credits_charged", "credits_refunded")),
    ("By way of", ("door", "key", "idempotency_key", "fingerprint")),
    ("Upstream", ("backend", "backends", "upstream_id", "upstream_key", "parameters", "progress", "sandbox")),
    ("Attempts", ("submissions", "faults", "attempt", "next_run_at", "lease_until")),
    ("Stopping", ("cancel_requested_at", "stop_reason", "stop_sent_at", "stop_by")),
    ("Times", ("created_at", "submitted_at", "completed_at", "deadline_at", "hidden_at")),
    ("Given to", ("shared_with", "shared_at")),
)
"""A run's columns, by what one asks of them."""


class PresetForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """The rules that the database cannot hold: names that mean one preset, backends that exist."""

    def clean_aliases(self) -> list[str]:
        aliases = _texts(self.cleaned_data["aliases"], "aliases")
        taken = {
            word
            for preset in Preset.objects.exclude(pk=self.instance.pk)
            for word in (preset.name, *preset.aliases)
        }
        clash = sorted({*aliases, self.cleaned_data.get("name", "")} & taken)
        if clash:
            raise forms.ValidationError(f"Another preset is called {clash[0]} already.")
        return aliases

    def clean_backends(self) -> list[str]:
        backends = _texts(self.cleaned_data["backends"], "backends")
        unknown = sorted(set(backends) - set(BACKENDS))
        if unknown:
            raise forms.ValidationError(
                f"There is no backend called {unknown[0]}: use {', '.join(BACKENDS)}."
            )
        return backends

    def clean_parameters(self) -> dict[str, Any]:
        parameters = self.cleaned_data["parameters"]
        if not isinstance(parameters, dict) or not all(
            isinstance(part, dict) for part in parameters.values()
        ):
            raise forms.ValidationError('Give an object of objects, such as {"agent": {"effort": "high"}}.')
        return parameters

    def clean_enabled(self) -> bool:
        enabled = bool(self.cleaned_data["enabled"])
        if self.instance.is_default and not enabled:
            raise forms.ValidationError(
                "The default preset cannot be switched off: make another the default first."
            )
        return enabled


def _texts(value: Any, what: str) -> list[str]:
    if value in (None, ""):
        return []
    if not isinstance(value, list) or not all(isinstance(part, str) and part for part in value):
        raise forms.ValidationError(f'Give a list of {what}, such as ["one", "two"].')
    return list(dict.fromkeys(value))


@admin.register(Preset)
class PresetAdmin(PortalAdmin):
    form = PresetForm
    list_display = (
        "name",
        "title",
        "price",
        "time_budget",
        "backends",
        "enabled",
        "is_default",
        "charge_cancelled",
    )
    list_filter = ("enabled",)
    search_fields = ("name", "title")
    fields = (
        "name", "title", "summary", "aliases", "position", "enabled", "is_default", "price", "time_budget",
        "usual_seconds", "backends", "parameters", "charge_cancelled",
    )  # fmt: skip
    readonly_fields = ("is_default",)
    actions = ("make_default",)

    def has_delete_permission(self, request: HttpRequest, obj: Preset | None = None) -> bool:
        return obj is not None and not obj.is_default

    @admin.action(description="Make it the default preset")
    def make_default(self, request: HttpRequest, presets: QuerySet[Preset]) -> None:
        preset = presets.first()
        if presets.count() != 1 or preset is None or not preset.enabled:
            self.message_user(request, "Choose one preset that is enabled.", messages.WARNING)
            return
        with transaction.atomic():
            Preset.objects.filter(is_default=True).update(is_default=False)
            Preset.objects.filter(pk=preset.pk).update(is_default=True)
            audit.record(who(request), "preset.made_default", f"preset:{preset.pk}", name=preset.name)
        self.message_user(request, f"The default preset is {preset}.", messages.SUCCESS)


@admin.register(BackendPolicy)
class BackendPolicyAdmin(KeptAdmin):
    list_display = ("name", "enabled", "resubmit")
    fields = ("name", "enabled", "resubmit")
    readonly_fields = ("name",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


class WordFilter(admin.SimpleListFilter):
    """Choices that need no look at the runs."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        wanted = {str(self.parameter_name): self.value()}
        return queryset.filter(**wanted) if self.value() else queryset

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.words()]

    def words(self) -> Iterable[str]:
        raise NotImplementedError


class StateFilter(WordFilter):
    title = parameter_name = "state"

    def words(self) -> Iterable[str]:
        return [state.value for state in State]


class PresetFilter(WordFilter):
    title = parameter_name = "preset"

    def words(self) -> Iterable[str]:
        return Preset.objects.values_list("name", flat=True)


class BackendFilter(WordFilter):
    title = parameter_name = "backend"

    def words(self) -> Iterable[str]:
        return BACKENDS


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("short_title", "state", "preset", "user", "backend", "price", "created_at", "public_id")
    list_filter = (StateFilter, PresetFilter, BackendFilter, "door", "sandbox")
    list_select_related = ("user",)
    search_fields = ("title", "^user__email")
    sortable_by = ()
    actions = ("cancel", "retry")
    fieldsets = tuple((title, {"fields": fields}) for title, fields in FIELDS)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        run_id = parse_response_id(search_term.strip()) or _uuid(search_term)
        if run_id is not None:
            return queryset.filter(pk=run_id), False
        found: tuple[QuerySet[Run], bool] = super().get_search_results(request, queryset, search_term)
        return found

    @admin.display(description="title")
    def short_title(self, run: Run) -> str:
        return Truncator(run.title).chars(60)

    @admin.action(description="Stop")
    def cancel(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        self.for_each(request, runs, lambda run: bool(cancel_any_run(who(request), run.pk)), "asked to stop")

    @admin.action(description="Retry as a new run of the same user")
    def retry(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        self.for_each(request, runs, lambda run: bool(retry_run(who(request), run.pk)), "started anew")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None
