"""Files that people keep here for their chats. They never go upstream by themselves (proxy-contract §10)."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from proxy.models.responses import ChatResponse


class StoredFile(models.Model):
    """One file. Until it is `ready` it is on its way in, and is there for nobody.

    `size` is what has come of it, in bytes. After `expires_at` it is gone, though the tidying may be
    late.
    """

    class Purpose(models.TextChoices):
        USER_DATA = "user_data"
        ASSISTANTS = "assistants"
        VISION = "vision"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="files")
    filename = models.CharField(max_length=255, blank=True)
    content_type = models.CharField(max_length=100, blank=True)
    """As the sender said; "" where nobody did."""
    purpose = models.CharField(max_length=10, choices=Purpose, default=Purpose.USER_DATA)
    size = models.PositiveIntegerField(default=0)
    ready = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    touched_at = models.DateTimeField(default=timezone.now)
    """When the last piece of it came."""
    expires_at = models.DateTimeField(null=True)
    kept = models.BooleanField(default=False)
    """It came with a stored response, which it goes with: no list shows it, and no id opens it."""

    class Meta:
        app_label = "proxy"
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=["user", "-created_at", "-id"], name="file_by_user"),
            models.Index(fields=["created_at"], name="file_by_age"),
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="file_expiring"),
            models.Index(fields=["touched_at"], condition=Q(ready=False), name="file_on_its_way"),
            models.Index(fields=["touched_at"], condition=Q(kept=True), name="file_kept"),
            # With the sizes, so that what somebody keeps is summed up without its rows.
            models.Index(
                fields=["user", "touched_at", "size"], condition=Q(kept=True), name="file_kept_by_user"
            ),
        )

    def __str__(self) -> str:
        return self.filename

    @staticmethod
    def held_by_none() -> Q:
        """That nothing which was kept needs it."""
        of_this = {"file": OuterRef("pk")}
        return ~Exists(ResponseAttachment.objects.filter(**of_this)) & ~Exists(
            ResearchAttachment.objects.filter(**of_this)
        )


class FilePiece(models.Model):
    """A stretch of a file's bytes: `number` counts from 0, all but the last are of one size."""

    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="pieces")
    number = models.PositiveSmallIntegerField()
    data = models.BinaryField()

    class Meta:
        app_label = "proxy"
        constraints = (models.UniqueConstraint(fields=["file", "number"], name="file_piece_once"),)


class Attached(models.Model):
    """One attachment that is kept with what it belongs to.

    Its bytes are `file`'s, or are fetched from `url`. With neither they are gone: deleted by their
    owner, or pushed out by newer ones.
    """

    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=255)
    content_type = models.CharField(max_length=100, blank=True)
    url = models.CharField(max_length=2048, blank=True)
    file = models.ForeignKey(StoredFile, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        abstract = True


class ResponseAttachment(Attached):
    """What a stored response has attached, its history included, so that a next one goes on with it."""

    response = models.ForeignKey(ChatResponse, on_delete=models.CASCADE, related_name="+", db_index=False)
    fingerprint = models.CharField(max_length=64)
    is_new = models.BooleanField()
    """It came with the question itself."""

    class Meta:
        app_label = "proxy"
        ordering = ("position",)
        constraints = (
            models.UniqueConstraint(fields=["response", "position"], name="response_attachment_once"),
        )


class ResearchAttachment(Attached):
    """What is attached to a research question, for as long as its run is kept.

    `key` is the caller's own name for the question, as `DeepResearch` has it.
    """

    key = models.UUIDField()
    is_picture = models.BooleanField()
    """As its sender calls it: of an address that was not fetched yet nothing else is known."""

    class Meta:
        app_label = "proxy"
        ordering = ("position",)
        constraints = (models.UniqueConstraint(fields=["key", "position"], name="research_attachment_once"),)
