"""What an operator decides about a backend."""

from __future__ import annotations

from django.db import models


class BackendPolicy(models.Model):
    """`resubmit`: whether a run whose worker died between sending and recording is sent once
    more to an upstream without idempotency keys, or ends as failed with its credits back."""

    name = models.CharField(max_length=20, unique=True)
    enabled = models.BooleanField(default=True)
    resubmit = models.BooleanField(default=False)

    class Meta:
        app_label = "research"
        ordering = ("name",)
        verbose_name_plural = "backend policies"

    def __str__(self) -> str:
        return self.name
