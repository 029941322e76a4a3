"""The library: one row for each run and chat that is still there, with all that its lists ask for.

The database itself keeps the rows (research.services.library_triggers), in the transactions in which runs and
chats change. The words by which they are found stand beside: in a column of the same table on PostgreSQL,
in a table of FTS5 on SQLite.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from portal.models.teams import Team


class Kind(models.TextChoices):
    RUN = "run"
    CHAT = "chat"


class LibraryEntry(models.Model):
    """Its id grows with its place, so a chat that goes on gets a new one: nothing may refer to it.

    No constraint checks what the entry refers to: it is as good as the row that it was taken from.
    """

    item = models.UUIDField(unique=True)
    """The run's id, or the conversation's."""
    kind = models.CharField(max_length=4, choices=Kind)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    shared_with = models.ForeignKey(
        Team, null=True, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    at = models.DateTimeField()
    """When the run was asked, or the chat went on last."""
    label = models.CharField(max_length=80)
    """The run's preset, or the model that the chat asked last."""
    status = models.CharField(max_length=10)
    """`live`, or the state in which a run or a chat's last answer has ended."""
    changed = models.PositiveIntegerField(default=1)
    """Grows whenever its text has changed."""
    indexed = models.PositiveIntegerField(default=0)
    """`changed` as it was when the words were taken."""

    class Meta:
        app_label = "research"
        # One index answers every filter: what the condition of a place leaves out is not fetched.
        indexes = (
            models.Index(fields=["user", "-at", "-id", "kind", "status", "label"], name="library_by_user"),
            models.Index(
                fields=["shared_with", "-at", "-id"],
                condition=Q(shared_with__isnull=False),
                name="library_by_team",
            ),
            models.Index(fields=["id"], condition=Q(indexed__lt=F("changed")), name="library_to_index"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.item}"


class LibraryTag(models.Model):
    """A word that a person has put to a run or a chat; nobody else sees it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="library_tags", db_index=False
    )
    item = models.UUIDField()
    name = models.CharField(max_length=30)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "research"
        ordering = ("name",)
        indexes = (models.Index(fields=["user", "name", "item"], name="library_tag_by_name"),)
        constraints = (models.UniqueConstraint(fields=["item", "user", "name"], name="library_tag_once"),)

    def __str__(self) -> str:
        return self.name
