"""The pool of Perplexity web sessions. A cookie goes in, is sealed, and never comes out again."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone


class WebAccount(models.Model):
    """One web session. `health` is what the last contact said, `retry_at` when to try it again.

    `jar` is the sealed JSON of its cookies; `jar_version` grows with each change, so that of two
    answers that both rotated the token the later one does not undo the earlier (compare-and-set).
    """

    class Tier(models.TextChoices):
        FREE = "free"
        PRO = "pro"
        MAX = "max"

    class Health(models.TextChoices):
        UNCHECKED = "unchecked"
        ACTIVE = "active"
        EXPIRED = "expired"
        BLOCKED = "blocked"
        LIMITED = "limited"

    name = models.CharField(max_length=60, unique=True)
    perplexity_user = models.CharField(max_length=80, blank=True)
    """`user.id` of the session: tells a new cookie of the same person from another person's."""
    tier = models.CharField(max_length=4, choices=Tier, default=Tier.PRO)
    priority = models.SmallIntegerField(default=0, help_text="Lower is asked first.")
    parallel_limit = models.PositiveSmallIntegerField(default=8)
    enabled = models.BooleanField(default=True)
    draining = models.BooleanField(default=False, help_text="Takes no new work; finishes what it has.")

    jar = models.TextField(blank=True, editable=False)
    jar_version = models.PositiveIntegerField(default=0, editable=False)
    jar_changed_at = models.DateTimeField(null=True, editable=False)
    imported_digest = models.CharField(max_length=64, blank=True, editable=False)
    """Of the environment's cookie that was last looked at; "" for accounts of other origin."""

    health = models.CharField(max_length=9, choices=Health, default=Health.UNCHECKED, editable=False)
    health_reason = models.CharField(max_length=200, blank=True, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    succeeded_at = models.DateTimeField(null=True, editable=False)
    remaining_pro = models.PositiveIntegerField(null=True, editable=False)
    remaining_research = models.PositiveIntegerField(null=True, editable=False)
    quota_at = models.DateTimeField(null=True, editable=False)
    quota_problem = models.CharField(max_length=200, blank=True, editable=False)
    alerted_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        app_label = "proxy"
        ordering = ("priority", "id")
        constraints = (
            models.CheckConstraint(condition=Q(parallel_limit__gt=0), name="web_account_takes_some_work"),
        )

    def __str__(self) -> str:
        return self.name
