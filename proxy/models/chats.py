"""Chat turns: one row is one question to a web session. It holds the slot, and explains the charge."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from portal.models.fields import CreditField
from portal.models.keys import ApiKey
from proxy.models.accounts import WebAccount


class Conversation(models.Model):
    """What the dashboard shows as one chat. API callers keep their own histories."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="conversations")
    title = models.CharField(max_length=120)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    hidden_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "proxy"
        ordering = ("-updated_at", "-id")
        indexes = (models.Index(fields=["user", "-updated_at", "-id"], name="conversation_by_user"),)

    def __str__(self) -> str:
        return self.title


class ChatTurn(models.Model):
    """An open turn occupies a slot of its account until `lease_until`; a dead process frees it so.

    Text is kept for the dashboard's own conversations only: what API callers say stays theirs.
    """

    class State(models.TextChoices):
        OPEN = "open"
        DELIVERED = "delivered"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="chat_turns")
    key = models.ForeignKey(ApiKey, null=True, on_delete=models.PROTECT, related_name="chat_turns")
    account = models.ForeignKey(WebAccount, null=True, on_delete=models.SET_NULL, related_name="turns")
    conversation = models.ForeignKey(Conversation, null=True, on_delete=models.CASCADE, related_name="turns")
    door = models.CharField(max_length=8)
    model = models.CharField(max_length=80)
    thinking = models.BooleanField(default=False)
    price = CreditField()
    state = models.CharField(max_length=9, choices=State, default=State.OPEN)
    lease_until = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.CharField(max_length=400, blank=True)
    answered_by = models.CharField(max_length=80, blank=True)
    """The preference that really answered."""
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    question = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    sources = models.JSONField(default=list)
    citations = models.JSONField(default=list)
    seq = models.PositiveIntegerField(default=0)
    """Grows whenever a dashboard's answer has, so that a page knows whether it has seen it."""
    claimed_at = models.DateTimeField(null=True)
    """When a worker began to answer a dashboard's turn; nobody does twice."""
    stop_asked_at = models.DateTimeField(null=True)
    sandbox = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    first_token_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "proxy"
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=["lease_until"], condition=Q(state="open"), name="chat_turn_open"),
            models.Index(fields=["account"], condition=Q(state="open"), name="chat_turn_open_by_account"),
            models.Index(fields=["user", "-created_at", "-id"], name="chat_turn_by_user"),
            models.Index(fields=["conversation", "created_at"], name="chat_turn_by_conversation"),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(state="open", ended_at__isnull=True, lease_until__isnull=False)
                | Q(~Q(state="open"), ended_at__isnull=False, lease_until__isnull=True),
                name="chat_turn_open_or_ended",
            ),
            models.UniqueConstraint(
                fields=["conversation"], condition=Q(state="open"), name="chat_turn_one_open_each"
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} {self.state}"

    @property
    def subject(self) -> str:
        """Of its ledger entries."""
        return f"chat:{self.pk}"


class Continuation(models.Model):
    """Where a history was last answered upstream, so that the next question continues there.

    `digest` covers user, account, model preference, sources, language and the whole history
    (proxy-contract §6): two users with equal histories never share a thread. The thread's ids and
    token are sealed: they are as good as a session.
    """

    digest = models.CharField(primary_key=True, max_length=64)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    account = models.ForeignKey(WebAccount, on_delete=models.CASCADE, related_name="+")
    thread = models.TextField()
    used_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "proxy"
        indexes = (models.Index(fields=["used_at"], name="continuation_by_age"),)
