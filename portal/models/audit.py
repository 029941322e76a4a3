"""Who did what to which object, when. Append-only, like the ledger."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class AuditEntry(models.Model):
    """`action` is a dotted name (`key.revoked`), `detail` never holds a secret."""

    at = models.DateTimeField(default=timezone.now)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    key_id = models.CharField(max_length=64, blank=True)
    """Public id of the API key that was used; empty for sessions and commands."""
    address = models.GenericIPAddressField(null=True)
    request_id = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=120, blank=True)
    detail = models.JSONField(default=dict)

    class Meta:
        app_label = "portal"
        ordering = ("-id",)
        verbose_name_plural = "audit entries"
        indexes = (
            models.Index(fields=["target", "-id"], name="audit_by_target"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.target}"
