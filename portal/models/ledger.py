"""The ledger: credit accounts and the entries that explain every balance.

Rows here are written by `portal.services.ledger` only. The database itself forbids a negative
balance, a second charge or refund for one subject, and any change to an entry (triggers,
installed after each migration by `portal.services.ledger_guard`).
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from portal.models.fields import CreditField
from portal.models.keys import ApiKey
from portal.models.teams import Team


class Plan(models.Model):
    """What a user gets each month. The allowance ends at its reset; it does not add up."""

    name = models.CharField(max_length=60, unique=True)
    allowance = CreditField(default=100)
    is_default = models.BooleanField(default=False)

    class Meta:
        app_label = "portal"
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=Q(allowance__gte=0), name="plan_allowance_not_negative"),
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="plan_default_once"
            ),
        )

    def __str__(self) -> str:
        return self.name


class CreditAccount(models.Model):
    """One user's credits, or one team's pool.

    `allowance` and `own` are what is left to spend. `reserved` is what open reservations hold:
    of a user, all that their own work holds, a pool's part included; of a pool, what everybody's
    work holds of it. All three are a cache of the entries, kept in the same transaction;
    `ledger_check` proves it.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="credits"
    )
    team = models.OneToOneField(Team, null=True, blank=True, on_delete=models.PROTECT, related_name="pool")
    plan = models.ForeignKey(Plan, null=True, blank=True, on_delete=models.PROTECT, related_name="accounts")
    allowance = CreditField(default=0)
    own = CreditField(default=0)
    reserved = CreditField(default=0)
    allowance_since = models.DateTimeField(null=True, blank=True)
    """Start of the month that `allowance` was granted for, UTC; null without a plan."""

    class Meta:
        app_label = "portal"
        constraints = (
            models.CheckConstraint(
                condition=Q(user__isnull=False, team__isnull=True) | Q(user__isnull=True, team__isnull=False),
                name="credit_account_of_user_or_team",
            ),
            models.CheckConstraint(
                condition=Q(allowance__gte=0, own__gte=0, reserved__gte=0),
                name="credit_account_never_negative",
            ),
        )

    def __str__(self) -> str:
        return f"credits of {self.user or self.team}"


class LedgerEntry(models.Model):
    """One movement of credits; `delta` is its effect on what is left to spend.

    reserve: delta = -(price). close: delta = released part, settled + released = the reserve.
    refund: delta = +amount, only after a close that settled something. grant: delta = +amount.
    adjust: any delta, with a reason. A delta is the sum of its three parts, by purse.
    """

    class Kind(models.TextChoices):
        GRANT = "grant"
        RESERVE = "reserve"
        CLOSE = "close"
        REFUND = "refund"
        ADJUST = "adjust"

    account = models.ForeignKey(
        CreditAccount, on_delete=models.PROTECT, related_name="entries", db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind)
    subject = models.CharField(max_length=80, blank=True)
    """What was paid for: `run:<uuid>`; empty for grants and adjustments."""
    delta = CreditField()
    allowance_delta = CreditField(default=0)
    own_delta = CreditField(default=0)
    pool_delta = CreditField(default=0)
    pool = models.ForeignKey(CreditAccount, null=True, on_delete=models.PROTECT, related_name="pool_entries")
    settled = CreditField(null=True)
    released = CreditField(null=True)
    grant_key = models.CharField(max_length=80, null=True)
    """Makes a grant happen once: `allowance:2026-12`, `welcome`, or the command's own key."""
    reason = models.CharField(max_length=200, blank=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    key = models.ForeignKey(ApiKey, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "portal"
        ordering = ("-id",)
        verbose_name_plural = "ledger entries"
        indexes = (
            models.Index(fields=["account", "-id"], name="ledger_by_account"),
            models.Index(fields=["key", "kind", "created_at"], name="ledger_by_key"),
            # SQLite cannot tell that the unique index below, which has a condition, would do.
            models.Index(fields=["subject", "kind"], name="ledger_by_subject"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["subject", "kind"],
                condition=Q(kind__in=["reserve", "close", "refund"]),
                name="ledger_subject_once_per_kind",
            ),
            models.UniqueConstraint(
                fields=["account", "grant_key"], condition=Q(kind="grant"), name="ledger_grant_once"
            ),
            models.CheckConstraint(
                condition=Q(delta=F("allowance_delta") + F("own_delta") + F("pool_delta")),
                name="ledger_delta_is_its_parts",
            ),
            models.CheckConstraint(
                condition=Q(pool__isnull=False) | Q(pool_delta=0), name="ledger_pool_part_has_a_pool"
            ),
            models.CheckConstraint(
                condition=(
                    Q(kind="grant", delta__gt=0, grant_key__isnull=False, subject="")
                    | Q(kind="reserve", delta__lt=0, grant_key__isnull=True) & ~Q(subject="")
                    | Q(kind="close", delta__gte=0, settled__gte=0, released__gte=0, delta=F("released"))
                    & ~Q(subject="")
                    | Q(kind="refund", delta__gt=0) & ~Q(subject="")
                    | Q(kind="adjust", subject="") & ~Q(reason="")
                ),
                name="ledger_entry_fits_its_kind",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.delta:+f} {self.subject}"
