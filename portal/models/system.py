"""The portal's own state: sealed credentials, rate windows, signs of life."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Credential(models.Model):
    """An upstream secret, sealed at rest and write-only in every interface.

    `imported_digest` remembers which value of the environment variable was last looked at,
    so that a changed one is noticed and a refused one is not tried at every start.
    """

    class Standing(models.TextChoices):
        UNCHECKED = "unchecked"
        ACCEPTED = "accepted"
        REFUSED = "refused"

    name = models.CharField(max_length=60, unique=True)
    sealed = models.TextField()
    hint = models.CharField(max_length=8, blank=True)
    """The last four characters, for people."""
    standing = models.CharField(max_length=10, choices=Standing, default=Standing.UNCHECKED)
    imported_digest = models.CharField(max_length=64, blank=True)
    problem = models.CharField(max_length=200, blank=True)
    checked_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "portal"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class RateWindow(models.Model):
    """Requests of one subject (`user:7`, `key:3`) in one minute; each new minute clears the old away."""

    subject = models.CharField(max_length=80)
    starts_at = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        app_label = "portal"
        constraints = (models.UniqueConstraint(fields=["subject", "starts_at"], name="rate_window_once"),)


class Heartbeat(models.Model):
    """When a part of the portal was last alive: `sweeper`."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "portal"
