"""Presets: what a run costs, how long it may take, and who answers it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.models.fields import CreditField


class Preset(models.Model):
    """Seeded from agent-api §4 and editable; a run keeps the values it was admitted with."""

    name = models.CharField(max_length=20, unique=True)
    title = models.CharField(max_length=60)
    summary = models.CharField(max_length=160, blank=True)
    aliases = models.JSONField(default=list, blank=True)
    position = models.PositiveSmallIntegerField(default=0)
    enabled = models.BooleanField(default=True)
    is_default = models.BooleanField(default=False)
    price = CreditField(help_text="Credits a run costs.")
    time_budget = models.PositiveIntegerField(help_text="Seconds a run may take.")
    usual_seconds = models.PositiveIntegerField(help_text="Usual time until our own history knows better.")
    backends = models.JSONField(
        default=list, blank=True, help_text="Order of backends; empty: RESEARCH_BACKENDS."
    )
    parameters = models.JSONField(default=dict, help_text="Per backend: what to ask it for.")
    charge_cancelled = models.BooleanField(default=False, help_text="Charge for work stopped in progress.")

    class Meta:
        app_label = "research"
        ordering = ("position", "name")
        constraints = (
            models.CheckConstraint(condition=Q(price__gte=0, time_budget__gt=0), name="preset_values_sane"),
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="preset_default_once"
            ),
        )

    def __str__(self) -> str:
        return self.name
