"""The pool of Perplexity web sessions. A cookie goes in, is sealed, and never comes out again."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone


class WebAccount(models.Model):
    """One web session. `health` is what the last contact said, `retry_at` when to try it again.

    `jar` is the sealed JSON of its cookies. `jar_version` grows when somebody replaces them: what
    was asked with the cookies before says nothing about these. The upstream's own rotations keep
    the version; of several, the one that was answered last stays (`rotated_at`).
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

    class Way(models.TextChoices):
        DIRECT = "direct"
        SOLVER = "solver", "FlareSolverr"

    name = models.CharField(max_length=60, unique=True)
    perplexity_user = models.CharField("Perplexity user", max_length=80, blank=True, editable=False)
    """`user.id` of the session: tells a new cookie of the same person from another person's."""
    tier = models.CharField(max_length=4, choices=Tier, default=Tier.PRO)
    told_tier = models.CharField(
        "tier as Perplexity says", max_length=4, choices=Tier, blank=True, editable=False
    )
    """What Perplexity says; `tier`, the operator's word, is what counts."""
    priority = models.SmallIntegerField(default=0, help_text="Lower is asked first.")
    parallel_limit = models.PositiveSmallIntegerField(
        default=8, help_text="Answers that it may be giving at the same time."
    )
    enabled = models.BooleanField(default=True)
    draining = models.BooleanField(default=False, help_text="Takes no new work; finishes what it has.")
    sandbox = models.BooleanField(default=False, editable=False)
    """Its cookies are the sandbox's: neither upstream ever sees those of the other."""

    jar = models.TextField(blank=True, editable=False)
    jar_version = models.PositiveIntegerField(default=0, editable=False)
    jar_changed_at = models.DateTimeField("cookie put in", null=True, editable=False)
    rotated_at = models.DateTimeField(null=True, editable=False)
    imported_digest = models.CharField(max_length=64, blank=True, editable=False)
    """Of the environment's cookie that was last looked at; "" for accounts of other origin."""
    import_problem = models.CharField("problem with PPLX_COOKIE", max_length=200, blank=True, editable=False)
    """Why that cookie is not the one in use."""

    health = models.CharField(max_length=9, choices=Health, default=Health.UNCHECKED, editable=False)
    health_at = models.DateTimeField(null=True, editable=False)
    health_reason = models.CharField("why", max_length=200, blank=True, editable=False)
    faults = models.PositiveSmallIntegerField(default=0, editable=False)
    """In a row, of the kinds that are the account's own."""
    retry_at = models.DateTimeField(null=True, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    succeeded_at = models.DateTimeField(null=True, editable=False)
    remaining_pro = models.PositiveIntegerField(null=True, editable=False)
    remaining_research = models.PositiveIntegerField(null=True, editable=False)
    quota_at = models.DateTimeField("counted at", null=True, editable=False)
    quota_way = models.CharField("counted by way of", max_length=6, choices=Way, blank=True, editable=False)
    quota_problem = models.CharField("why it was not counted", max_length=200, blank=True, editable=False)
    alerted_at = models.DateTimeField("told of expiry", null=True, editable=False)

    # When the scheduled care is due; whoever moves one ahead from the value it read has the work.
    check_due_at = models.DateTimeField(default=timezone.now, editable=False)
    quota_due_at = models.DateTimeField(default=timezone.now, editable=False)
    alert_due_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        app_label = "proxy"
        verbose_name = "Perplexity account"
        ordering = ("priority", "id")
        constraints = (
            models.CheckConstraint(condition=Q(parallel_limit__gt=0), name="web_account_takes_some_work"),
        )

    def __str__(self) -> str:
        return self.name


class Duty(models.Model):
    """Scheduled work that belongs to no account (`discovery`), and when it is due next."""

    name = models.CharField(max_length=40, primary_key=True)
    due_at = models.DateTimeField()

    class Meta:
        app_label = "proxy"

    def __str__(self) -> str:
        return self.name
