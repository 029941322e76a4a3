"""Chats that were asked through `/v1/responses` and are kept: what was said, what came, in which events."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from portal.models.keys import ApiKey

LIVE = ("queued", "in_progress")


class WireField(models.TextField):  # type: ignore[type-arg]  # generic only in the stubs
    """A JSON value kept as its text: members stay in order, and NUL characters, which models do write
    and PostgreSQL's own type refuses, pass."""

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Any:
        return None if value is None else json.loads(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False)


class ApiConversation(models.Model):
    """What callers name in `conversation`: its items are the history of its next response.

    `name` is the caller's own word, or the `conv_…` that was given out. No relation to the dashboard's
    `Conversation`, which is a list of turns that a page shows.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=200)
    metadata = WireField(default=dict)
    last_response = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "proxy"
        indexes = (models.Index(fields=["updated_at"], name="api_conversation_by_age"),)
        constraints = (models.UniqueConstraint(fields=["user", "name"], name="api_conversation_once"),)

    def __str__(self) -> str:
        return self.name


class ConversationItem(models.Model):
    """One item of a conversation, in the shape of the wire. `place` counts from 1; holes stay holes."""

    conversation = models.ForeignKey(ApiConversation, on_delete=models.CASCADE, related_name="items")
    place = models.PositiveIntegerField()
    item_id = models.CharField(max_length=128)
    data = WireField()

    class Meta:
        app_label = "proxy"
        constraints = (
            models.UniqueConstraint(fields=["conversation", "place"], name="conversation_item_place"),
            models.UniqueConstraint(fields=["conversation", "item_id"], name="conversation_item_once"),
        )

    def __str__(self) -> str:
        return self.item_id


class ChatResponse(models.Model):
    """One stored response. Its id is that of its turn, which holds the lease and explains the charge.

    Deleting it deletes what was said; turn and ledger stay.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        IN_PROGRESS = "in_progress"
        COMPLETED = "completed"
        FAILED = "failed"
        INCOMPLETE = "incomplete"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    key = models.ForeignKey(ApiKey, null=True, on_delete=models.PROTECT, related_name="+")
    conversation = models.ForeignKey(ApiConversation, null=True, on_delete=models.SET_NULL, related_name="+")
    status = models.CharField(max_length=11, choices=Status)
    background = models.BooleanField(default=False)
    body = WireField()
    """The response object as it is now."""
    input_items = WireField(default=list)
    said = WireField(default=list)
    """The messages that a next response continues: `[[role, text], …]`, this answer's among them."""
    prepared = WireField(null=True)
    """For a worker: the conversation as it was let in, of everything that is streamed or in the background.
    Empty when it has ended."""
    thread = models.TextField(blank=True)
    """Where the answer lives upstream, sealed: to stop it, or to go on after a worker's death."""
    attempts = models.PositiveSmallIntegerField(default=0)
    """Workers that have begun it; of a stream whose caller was waiting, those that took it over."""
    events = models.PositiveIntegerField(default=0)
    """Events that are written: the next one's sequence number."""
    idempotency_key = models.CharField(max_length=200, null=True)
    fingerprint = models.CharField(max_length=64, null=True)
    """With a key: the SHA-256 of every member of the request that has an effect."""
    created_at = models.DateTimeField(default=timezone.now)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "proxy"
        indexes = (
            models.Index(fields=["user"], condition=Q(completed_at=None), name="chat_response_live_by_user"),
            models.Index(fields=["completed_at"], name="chat_response_by_age"),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=LIVE, completed_at=None)
                | Q(~Q(status__in=LIVE), completed_at__isnull=False),
                name="chat_response_live_or_ended",
            ),
            models.UniqueConstraint(
                fields=["user", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="chat_response_once_per_key",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.status}"


class ResponseEvents(models.Model):
    """Events `first` to `last` of a response, written together before any of them is sent.

    `data` are their records as they go out, so that each replay is the same to the byte.
    """

    response = models.ForeignKey(ChatResponse, on_delete=models.CASCADE, related_name="+", db_index=False)
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    data = models.TextField()

    class Meta:
        app_label = "proxy"
        ordering = ("first",)
        constraints = (models.UniqueConstraint(fields=["response", "first"], name="response_events_once"),)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"
