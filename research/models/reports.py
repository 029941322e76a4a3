"""What a run leaves behind: its ordered events, and its report."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from research.models.runs import Run


class RunEvent(models.Model):
    """One line of a run's log. `seq` counts from 1 without gaps (SPEC 3.7)."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=24)
    data = models.JSONField(default=dict)

    class Meta:
        app_label = "research"
        ordering = ("run", "seq")
        constraints = (models.UniqueConstraint(fields=["run", "seq"], name="run_event_seq_once"),)


class Report(models.Model):
    """The delivered text and everything that proves it; written once, with the final state."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="report")
    text = models.TextField()
    """Markdown, think-blocks removed; what every door delivers."""
    html = models.TextField()
    """Sanitised; rendered once by the worker."""
    thinking = models.TextField(blank=True)
    sources = models.JSONField(default=list)
    marks = models.JSONField(default=list)
    annotations = models.JSONField(default=list)
    checks = models.JSONField(default=dict)
    notices = models.JSONField(default=list)
    queries = models.JSONField(default=list)
    receipt = models.JSONField(default=dict)
    usage = models.JSONField(default=dict)
    """Token counts as the upstream gave them."""
    steps = models.PositiveIntegerField(default=0)
    upstream_cost = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    """US dollars."""
    model = models.CharField(max_length=120, blank=True)
    incomplete_reason = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "research"
