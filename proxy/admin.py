"""Accounts, chat models and prompt patterns in the admin site. A cookie goes in and is never shown."""

from __future__ import annotations

import re
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.admin.base import PortalAdmin, given, who
from portal.services import upstreams
from portal.services.errors import Invalid
from portal.wire.errors import Problem
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel, PromptPattern
from proxy.protocol.delta import Fault
from proxy.protocol.model_table import MODES
from proxy.services import keepalive, quota, sessions
from proxy.services.accounts import open_turns, with_load
from proxy.services.cookie_steps import COOKIE_STEPS
from proxy.services.discovery import discover

STEPS = format_html("<ol>{}</ol>", format_html_join("", "<li>{}</li>", ((step,) for step in COOKIE_STEPS)))
SETTINGS = ("name", "tier", "priority", "parallel_limit", "enabled", "draining")
SEEN = (
    "health_shown", "health_reason", "work", "retry_at", "checked_at", "succeeded_at", "told_tier",
    "perplexity_user", "remaining_pro", "remaining_research", "quota_at", "quota_way", "quota_problem",
    "jar_changed_at", "import_problem", "alerted_at", "created_at",
)  # fmt: skip


class SecretArea(forms.Textarea):
    """Write-only: what was pasted is never sent back, not even with an error."""

    def format_value(self, value: Any) -> None:
        return None


class CookieField(forms.CharField):
    def __init__(self, **options: Any) -> None:
        area = SecretArea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"})
        super().__init__(widget=area, help_text=STEPS, **options)


class CookieForm(forms.Form):
    cookie = CookieField()


class AccountForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """`shown` is what the upstream said to the cookie, asked before the transaction of the form."""

    shown: sessions.Checked | Invalid | None = None
    cookie = CookieField(required=False)

    class Meta:
        model = WebAccount
        fields = SETTINGS

    def clean_parallel_limit(self) -> int:
        if limit := int(self.cleaned_data["parallel_limit"]):
            return limit
        raise forms.ValidationError(
            "At least 1: one that is to take no new work is drained, or switched off."
        )

    def clean_cookie(self) -> None:
        """Nothing of it stays in the form."""
        if isinstance(self.shown, Invalid):
            raise forms.ValidationError(str(self.shown))
        if self.shown is not None:
            self._check(self.shown)

    def _check(self, shown: sessions.Checked) -> None:
        if isinstance(shown.verdict, Fault):
            raise forms.ValidationError(str(sessions.SessionRefused(shown.verdict)))
        if self.instance.jar and self.instance.sandbox != shown.sandbox:
            raise forms.ValidationError("An account keeps to its upstream: add another one.")


class NewAccountForm(AccountForm):
    cookie = CookieField()
    tier = forms.ChoiceField(choices=[("", "as Perplexity says"), *WebAccount.Tier.choices], required=False)

    class Meta:
        model = WebAccount
        fields = ("name", "tier", "priority", "parallel_limit")

    def clean_tier(self) -> str:
        """The model needs one; the told one is put in with the cookie."""
        return str(self.cleaned_data["tier"] or WebAccount.Tier.FREE)


@admin.register(WebAccount)
class WebAccountAdmin(PortalAdmin):
    list_display = (
        "name", "health_shown", "work", "tier", "priority", "remaining_pro", "remaining_research",
        "checked_at", "succeeded_at",
    )  # fmt: skip
    list_filter = ("health", "tier", "enabled", "sandbox")
    search_fields = ("name",)
    readonly_fields = SEEN
    fieldsets = (
        (None, {"fields": SETTINGS}),
        ("A new cookie", {"fields": ("cookie",)}),
        ("How it is", {"fields": SEEN}),
    )
    actions = (
        "validate_now",
        "replace_cookie",
        "drain",
        "end_draining",
        "read_what_is_left",
        "discover_models",
    )

    def get_fieldsets(self, request: HttpRequest, obj: WebAccount | None = None) -> Any:
        new = ("name", "cookie", "tier", "priority", "parallel_limit")
        return super().get_fieldsets(request, obj) if obj else ((None, {"fields": new}),)

    def get_form(
        self, request: HttpRequest, obj: WebAccount | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        base = AccountForm if obj else NewAccountForm
        shown = getattr(request, "shown_cookie", None)
        form = type(base.__name__, (base,), {"shown": shown})
        return super().get_form(request, obj, change, **{**kwargs, "form": form})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        """The upstream is asked here, since the form's own work is done in a transaction."""
        text = request.POST.get("cookie", "").strip() if request.method == "POST" else ""
        may = self.has_change_permission(request) if object_id else self.has_add_permission(request)
        if text and may:
            cast(Any, request).shown_cookie = show_cookie(text)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: WebAccount, form: Any, change: bool) -> None:
        """Columns that somebody else writes meanwhile are not written over: only the form's are."""
        shown = form.shown
        if change:
            WebAccount.objects.filter(pk=obj.pk).update(**{name: getattr(obj, name) for name in SETTINGS})
        else:
            super().save_model(request, obj, form, change)
        if isinstance(shown, sessions.Checked):
            as_told = not change and not form.data.get("tier")
            sessions.put_checked(shown, obj, actor=who(request), tier_as_told=as_told)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[WebAccount]) -> None:
        for account in queryset:
            self.delete_model(request, account)

    def delete_model(self, request: HttpRequest, obj: WebAccount) -> None:
        super().delete_model(request, obj)
        if loss := upstreams.when_unanswered():
            self.message_user(request, loss, messages.WARNING)

    @admin.display(description="health", ordering="health")
    def health_shown(self, account: WebAccount) -> SafeString:
        return format_html(
            '<span class="health {}" title="{}">{}</span>',
            account.health,
            account.health_reason,
            account.get_health_display(),
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebAccount]:
        return with_load(super().get_queryset(request))

    @admin.display(description="answers now")
    def work(self, account: WebAccount) -> str:
        """`2 of 8`, and what keeps it from more."""
        stop = "" if account.enabled else ", switched off"
        if account.draining:
            stop = f"{stop}, draining"
        return f"{getattr(account, 'load', 0)} of {account.parallel_limit}{stop}"

    @admin.action(description="Validate now")
    def validate_now(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> None:
        keepalive.check_accounts([account for account in accounts if account.jar])
        for account in accounts.all():
            is_well = account.health == WebAccount.Health.ACTIVE
            reason = f": {account.health_reason}" if account.health_reason else ""
            level = messages.SUCCESS if is_well else messages.WARNING
            self.message_user(request, f"{account} is {account.health}{reason}", level)

    @admin.action(description="Replace the cookie…")
    def replace_cookie(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> HttpResponse | None:
        account = accounts.first()
        if account is None or accounts.count() != 1:
            self.message_user(request, "Choose one account.", messages.WARNING)
            return None
        form = CookieForm(given(request))
        if not form.is_valid():
            return self.ask_first(request, accounts, form, "A new cookie", "Validate and replace")
        self.for_each(
            request,
            accounts,
            lambda one: sessions.put_cookie(form.cleaned_data["cookie"], account=one, actor=who(request)),
            "signed in with a new cookie",
        )
        return None

    @admin.action(description="Drain: take no new work")
    def drain(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> None:
        self._set_draining(request, accounts, True)

    @admin.action(description="End draining: take work again")
    def end_draining(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> None:
        self._set_draining(request, accounts, False)

    def _set_draining(self, request: HttpRequest, accounts: QuerySet[WebAccount], draining: bool) -> None:
        for account in accounts:
            sessions.set_draining(account, draining, actor=who(request))
            left = f"takes no new work; {open_turns(account)} answers are under way"
            self.message_user(request, f"{account} {left if draining else 'takes work again'}.")

    @admin.action(description="Read what is left")
    def read_what_is_left(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> None:
        quota.read_accounts([account for account in accounts if account.jar])
        for account in accounts.all():
            if account.quota_problem:
                self.message_user(request, f"{account}: {account.quota_problem}", messages.WARNING)
            else:
                left = f"{account.remaining_pro} pro and {account.remaining_research} research answers"
                self.message_user(request, f"{account} has {left} left.", messages.SUCCESS)

    @admin.action(description="Discover models")
    def discover_models(self, request: HttpRequest, accounts: QuerySet[WebAccount]) -> None:
        account = accounts.first()
        if account is None or accounts.count() != 1:
            self.message_user(request, "Choose the account that is to ask.", messages.WARNING)
            return
        try:
            report = discover(manual=True, account=account, actor=who(request))
        except Problem as problem:
            self.message_user(request, f"{account}: {problem}", messages.WARNING)
            return
        told = [f"{model.id} is new" for model in report.added]
        told += [f"{name} is now {new}" for name, (_, new) in report.upgraded.items()]
        told += [f"{one.model} is gone" for one in report.dead]
        told += [f"{one.model}: {one.reason}" for one in report.unavailable]
        counts = f"{len(report.alive)} models answer, {report.probed} were asked."
        self.message_user(request, f"{counts} {'; '.join(told) or 'Nothing has changed'}.", messages.SUCCESS)


class ChatModelForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    mode = forms.ChoiceField(choices=[(mode, mode) for mode in MODES], initial="pro")

    def clean_id(self) -> str:
        name = str(self.cleaned_data["id"])
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", name):
            raise forms.ValidationError("Use letters, digits, dots and dashes.")
        return name


@admin.register(ChatModel)
class ChatModelAdmin(PortalAdmin):
    form = ChatModelForm
    list_display = ("id", "label", "tier", "preference", "thinking", "price", "enabled", "custom", "position")
    list_filter = ("enabled", "tier", "custom")
    search_fields = ("id", "label", "preference")
    fields = (
        "id",
        "label",
        "tier",
        "mode",
        "preference",
        "thinking",
        "price",
        "position",
        "enabled",
        "custom",
    )
    readonly_fields = ("custom",)
    actions = ("enable", "disable")

    def get_readonly_fields(self, request: HttpRequest, obj: ChatModel | None = None) -> tuple[str, ...]:
        """Another id would be another model."""
        return (*self.readonly_fields, "id") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: ChatModel, form: Any, change: bool) -> None:
        obj.custom = obj.custom or not change
        super().save_model(request, obj, form, change)

    @admin.action(description="Offer")
    def enable(self, request: HttpRequest, models: QuerySet[ChatModel]) -> None:
        self.tell(request, models.filter(enabled=False).update(enabled=True), "offered")

    @admin.action(description="Do not offer")
    def disable(self, request: HttpRequest, models: QuerySet[ChatModel]) -> None:
        self.tell(request, models.filter(enabled=True).update(enabled=False), "no longer offered")


class PatternForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    def clean_pattern(self) -> str:
        pattern = str(self.cleaned_data["pattern"])
        try:
            re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise forms.ValidationError(f"This is no regular expression: {error}.") from None
        return pattern


@admin.register(PromptPattern)
class PromptPatternAdmin(PortalAdmin):
    form = PatternForm
    list_display = ("pattern", "enabled", "position")
    list_filter = ("enabled",)
    search_fields = ("pattern",)
    fields = ("pattern", "enabled", "position")


def show_cookie(text: str) -> sessions.Checked | Invalid:
    """What the upstream says to a pasted cookie."""
    try:
        return sessions.check_jar(sessions.read_cookie(text))
    except Invalid as error:
        return error
