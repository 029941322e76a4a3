"""The chat models on offer. Seeded from perplexity-web §13; operators and discovery change it."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Q

from portal.models.fields import CreditField
from proxy.models.accounts import WebAccount


class ChatModel(models.Model):
    """`preference` selects the model upstream and is shown to admins only."""

    id = models.CharField(primary_key=True, max_length=80)
    label = models.CharField(max_length=80, blank=True)
    tier = models.CharField(max_length=4, choices=WebAccount.Tier, default=WebAccount.Tier.PRO)
    mode = models.CharField(max_length=13, default="pro")
    preference = models.CharField(max_length=80)
    thinking = models.CharField(max_length=80, blank=True)
    enabled = models.BooleanField(default=True)
    custom = models.BooleanField(default=False)
    price = CreditField(default=Decimal("0.1"), help_text="Credits an answer costs.")
    position = models.PositiveSmallIntegerField(default=1000)

    class Meta:
        app_label = "proxy"
        ordering = ("position", "id")
        constraints = (models.CheckConstraint(condition=Q(price__gte=0), name="chat_model_price_sane"),)

    def __str__(self) -> str:
        return self.id


class PromptPattern(models.Model):
    """One line of the whitelist for foreign system prompts (proxy-contract §5.7): a regular expression."""

    pattern = models.CharField(max_length=300)
    enabled = models.BooleanField(default=True)
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        app_label = "proxy"
        ordering = ("position", "id")

    def __str__(self) -> str:
        return self.pattern
