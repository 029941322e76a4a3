"""Plans, credit accounts, the ledger and the audit log in the admin site."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.admin.base import KeptAdmin, PortalAdmin, ReadOnlyAdmin, ReasonForm, given, who
from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount, LedgerEntry, Plan
from portal.services import audit
from portal.services.credits import refund_charge


@admin.register(Plan)
class PlanAdmin(PortalAdmin):
    list_display = ("name", "allowance", "is_default")
    search_fields = ("name",)
    fields = ("name", "allowance", "is_default")
    readonly_fields = ("is_default",)
    actions = ("make_default",)

    def has_delete_permission(self, request: HttpRequest, obj: Plan | None = None) -> bool:
        """Only a plan that nobody is on or will be on."""
        return obj is not None and not obj.is_default and not obj.accounts.exists()

    @admin.action(description="Make it the plan of new users")
    def make_default(self, request: HttpRequest, plans: QuerySet[Plan]) -> None:
        if plans.count() != 1:
            self.message_user(request, "Choose one plan.", messages.WARNING)
            return
        plan = plans.get()
        with transaction.atomic():
            Plan.objects.filter(is_default=True).update(is_default=False)
            Plan.objects.filter(pk=plan.pk).update(is_default=True)
            audit.record(who(request), "plan.made_default", f"plan:{plan.pk}", name=plan.name)
        self.message_user(request, f"New users are on the plan {plan}.", messages.SUCCESS)


@admin.register(CreditAccount)
class CreditAccountAdmin(KeptAdmin):
    """Only the plan can be changed; credits move through grants."""

    list_display = ("holder", "plan", "allowance", "own", "reserved", "allowance_since")
    list_filter = ("plan",)
    list_select_related = ("user", "team", "plan")
    search_fields = ("user__email", "team__name")
    ordering = ("-id",)
    fields = ("holder", "plan", "allowance", "own", "reserved", "allowance_since")
    readonly_fields = ("holder", "allowance", "own", "reserved", "allowance_since")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: CreditAccount | None = None) -> Any:
        """A pool has no plan."""
        return (*self.readonly_fields, "plan") if obj and obj.team_id else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: CreditAccount, form: Any, change: bool) -> None:
        """The balances may have moved since the form was opened: only the plan is written."""
        CreditAccount.objects.filter(pk=obj.pk).update(plan=obj.plan)
        audit.record(who(request), "account.plan_changed", f"account:{obj.pk}", plan=str(obj.plan))

    @admin.display(description="of")
    def holder(self, account: CreditAccount) -> str:
        return str(account.user or account.team)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "account", "kind", "delta", "settled", "subject", "reason", "actor")
    list_filter = ("kind",)
    list_select_related = ("account__user", "account__team", "actor")
    search_fields = ("=subject", "^account__user__email", "^account__team__name")
    sortable_by = ()
    actions = ("refund",)

    @admin.action(description="Refund what was charged…")
    def refund(self, request: HttpRequest, entries: QuerySet[LedgerEntry]) -> HttpResponse | None:
        charges = entries.filter(kind=LedgerEntry.Kind.CLOSE, settled__gt=0)
        if not charges.exists():
            self.message_user(request, "Choose entries that charged something.", messages.WARNING)
            return None
        form = ReasonForm(given(request))
        if not form.is_valid():
            return self.ask_first(request, charges, form, "Refund", "Refund")
        reason = form.cleaned_data["reason"]
        self.for_each(
            request,
            charges,
            lambda entry: refund_charge(entry.subject, reason=reason, actor=who(request)) > 0,
            "refunded",
        )
        return None


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "key_id", "address", "action", "target", "detail")
    list_select_related = ("actor",)
    search_fields = ("^action", "^target", "^actor__email", "=key_id")
    sortable_by = ()
