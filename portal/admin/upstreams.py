"""Upstream credentials in the admin site: what is known of them, and their removal. Never the secret."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from portal.admin.base import PortalAdmin, who
from portal.models.system import Credential
from portal.services import credentials, upstreams

SEEN = ("name", "ending", "standing", "problem", "checked_at", "updated_at")


@admin.register(Credential)
class CredentialAdmin(PortalAdmin):
    """They come in by environment, where they are checked before one replaces another."""

    list_display = SEEN
    fields = SEEN

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Credential | None = None) -> bool:
        return False

    @admin.display(description="ends in")
    def ending(self, row: Credential) -> str:
        return f"…{row.hint}" if row.hint else "–"

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def delete_model(self, request: HttpRequest, obj: Credential) -> None:
        name = obj.name
        credentials.remove(obj, actor=who(request))
        if getattr(settings, name, ""):
            self.message_user(
                request,
                f"{name} is still set in the environment: the next start stores it again.",
                messages.WARNING,
            )
        if loss := upstreams.when_unanswered():
            self.message_user(request, loss, messages.WARNING)
