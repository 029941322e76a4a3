"""Deep research at web sessions: one row is one question, from before it is sent until its thread is gone."""

from __future__ import annotations

from uuid import uuid4

from django.db import models
from django.db.models import Q
from django.utils import timezone

from proxy.models.accounts import WebAccount


class DeepResearch(models.Model):
    """It occupies a place of its account until `held_until`, which every look at it puts off.

    `key` is the caller's own name for the question, the same at every attempt: what a dead process
    left upstream is found by it. `thread` is sealed, as good as a session, and known once the
    upstream has taken the question.
    """

    class State(models.TextChoices):
        ASKED = "asked"
        RUNNING = "running"
        ENDED = "ended"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    key = models.UUIDField(unique=True)
    account = models.ForeignKey(WebAccount, null=True, on_delete=models.SET_NULL, related_name="researches")
    tried = models.JSONField(default=list)
    """Accounts that could not take it though nothing is wrong with them."""
    anew = models.BooleanField(default=False)
    """The earlier thread was refused: it is asked with everything."""
    thread = models.TextField(blank=True)
    answered_by = models.CharField(max_length=80, blank=True)
    """The preference that really answers."""
    state = models.CharField(max_length=7, choices=State, default=State.ASKED)
    held_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    forget_at = models.DateTimeField(null=True)
    """When to delete its thread upstream, and then this row; None while the report is kept."""
    forget_tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        app_label = "proxy"
        verbose_name_plural = "deep researches"
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(
                fields=["account"], condition=Q(held_until__isnull=False), name="deep_research_held"
            ),
            models.Index(
                fields=["forget_at"], condition=Q(forget_at__isnull=False), name="deep_research_to_forget"
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(state="ended", held_until__isnull=True)
                | Q(~Q(state="ended"), held_until__isnull=False),
                name="deep_research_ended_holds_no_place",
            ),
        )

    def __str__(self) -> str:
        return f"deep research {self.pk} {self.state}"
