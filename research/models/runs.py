"""Runs: one row is one question on its way to a report. The row is the queue (STACK §4.3)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from portal.models.fields import CreditField
from portal.models.keys import ApiKey
from portal.models.teams import Team
from portal.wire.ids import response_id
from research.protocol.states import LIVE, PUBLIC, TERMINAL, State

SUBJECT = "run:"
"""What the ledger's subjects of runs begin with."""


def values(states: Iterable[State]) -> list[str]:
    """Plain words, so that no migration names our enum."""
    return sorted(state.value for state in states)


class Door(models.TextChoices):
    REST = "rest"
    BROWSER = "browser"
    SHELL = "shell"
    MCP = "mcp"
    ADMIN = "admin"


class Run(models.Model):
    """State moves only through `research.services.moves`, under a lease token."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs", db_index=False
    )
    key = models.ForeignKey(ApiKey, null=True, on_delete=models.PROTECT, related_name="runs")
    door = models.CharField(max_length=8, choices=Door)
    idempotency_key = models.CharField(max_length=200, null=True)
    fingerprint = models.CharField(max_length=64)
    """SHA-256 of every effective option: same key and same print is the same request."""

    question = models.TextField()
    title = models.CharField(max_length=120)
    options = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    ignored = models.JSONField(default=list)
    """Known request fields that the chosen backend cannot honour."""
    previous = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="follow_ups", db_index=False
    )
    previous_chat = models.UUIDField(null=True)
    """The chat's response that it goes on from instead. No relation: deleting that deletes what was said,
    and what is told of this run stays as it was."""
    retry_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="retries", db_index=False
    )

    preset = models.CharField(max_length=20)
    price = CreditField()
    time_budget = models.PositiveIntegerField()
    usual_seconds = models.PositiveIntegerField()
    backends = models.JSONField()
    parameters = models.JSONField(default=dict)
    charge_cancelled = models.BooleanField(default=False)

    state = models.CharField(max_length=10, default=State.QUEUED.value)
    backend = models.CharField(max_length=20, blank=True)
    """Who is asked, or answered. Its place in `backends` is `backend_index`."""
    backend_index = models.PositiveSmallIntegerField(default=0)
    upstream_key = models.UUIDField(unique=True, default=uuid4, editable=False)
    upstream_id = models.CharField(max_length=200, blank=True)
    submissions = models.PositiveSmallIntegerField(default=0)
    """Times this run may have reached the present backend."""
    faults = models.PositiveSmallIntegerField(default=0)
    """Failed upstream calls in a row, for back-off."""
    attempt = models.PositiveIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    next_run_at = models.DateTimeField(null=True, default=timezone.now)
    deadline_at = models.DateTimeField()
    cancel_requested_at = models.DateTimeField(null=True)
    stop_reason = models.CharField(max_length=8, blank=True)
    """`user` or `budget`: why a run in `cancelling` is being stopped."""
    stop_sent_at = models.DateTimeField(null=True)
    stop_by = models.DateTimeField(null=True)
    """When to stop waiting for the upstream's last word."""

    progress = models.JSONField(default=dict)
    notes = models.JSONField(default=list)
    """Sentences for the receipt: fail-overs, an open question, an unconfirmed stop."""
    event_seq = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.CharField(max_length=1000, blank=True)
    credits_charged = CreditField(default=0)
    credits_refunded = CreditField(default=0)
    sandbox = models.BooleanField(default=False)

    created_at = models.DateTimeField(default=timezone.now)
    submitted_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    hidden_at = models.DateTimeField(null=True)
    """Deleted by its user or by retention: gone for every door, kept for the ledger."""
    shared_with = models.ForeignKey(
        Team, null=True, on_delete=models.SET_NULL, related_name="shared_runs", db_index=False
    )
    """The team its user has given it to. It counts as long as that is their team: see `research.queries`."""
    shared_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "research"
        ordering = ("-created_at", "-id")
        # Putting a run back for its next look writes every one of these anew: few, and narrow.
        indexes = (
            models.Index(fields=["next_run_at"], condition=Q(next_run_at__isnull=False), name="run_due"),
            models.Index(
                fields=["user", "-created_at", "-id"], condition=Q(hidden_at__isnull=True), name="run_by_user"
            ),
            models.Index(fields=["-created_at", "-id"], name="run_by_time"),
            models.Index(fields=["previous"], condition=Q(previous__isnull=False), name="run_by_previous"),
            models.Index(fields=["retry_of"], condition=Q(retry_of__isnull=False), name="run_by_retry"),
            models.Index(fields=["user"], condition=Q(completed_at__isnull=True), name="run_live_by_user"),
            models.Index(fields=["key"], condition=Q(completed_at__isnull=True), name="run_live_by_key"),
            models.Index(
                fields=["user", "state", "-created_at", "-id"],
                condition=Q(completed_at__isnull=False, hidden_at__isnull=True),
                name="run_ended_by_user",
            ),
            models.Index(
                fields=["preset", "-completed_at"], condition=Q(state="completed"), name="run_times"
            ),
            models.Index(fields=["user", "fingerprint", "-created_at"], name="run_by_fingerprint"),
            models.Index(fields=["completed_at"], condition=Q(hidden_at__isnull=True), name="run_by_age"),
            models.Index(
                fields=["shared_with", "-shared_at", "-id"],
                condition=Q(shared_with__isnull=False, hidden_at__isnull=True),
                name="run_by_team",
            ),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["user", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="run_once_per_idempotency_key",
            ),
            models.CheckConstraint(condition=Q(state__in=values(State)), name="run_state_known"),
            models.CheckConstraint(
                condition=(
                    Q(state__in=values(LIVE), completed_at__isnull=True, next_run_at__isnull=False)
                    | Q(
                        state__in=values(TERMINAL),
                        completed_at__isnull=False,
                        next_run_at__isnull=True,
                        lease_token__isnull=True,
                    )
                ),
                name="run_terminal_is_at_rest",
            ),
        )

    def __str__(self) -> str:
        return f"{self.public_id} {self.state}"

    @property
    def public_id(self) -> str:
        return response_id(self.id)

    @property
    def status(self) -> str:
        """The state as the APIs name it."""
        return PUBLIC[State(self.state)]

    @property
    def is_terminal(self) -> bool:
        return State(self.state) in TERMINAL

    @property
    def continues(self) -> UUID | None:
        """The run, or the chat's response, that it goes on from."""
        return self.previous_id or self.previous_chat

    @property
    def subject(self) -> str:
        return ledger_subject(self.id)


def ledger_subject(run: UUID) -> str:
    return f"{SUBJECT}{run}"


def run_of_subject(subject: str) -> UUID | None:
    """The run that a ledger entry is about; None when it is about something else."""
    try:
        return UUID(subject.removeprefix(SUBJECT)) if subject.startswith(SUBJECT) else None
    except ValueError:
        return None
