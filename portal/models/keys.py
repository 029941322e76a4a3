"""API keys: found by public id, proved by a keyed digest, shown once."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from portal.models.fields import CreditField


class Scope(models.TextChoices):
    RESEARCH = "research"
    CHAT = "chat"
    FILES = "files"
    MCP = "mcp"
    ADMIN = "admin"
    MCP_URL = "mcp:url", "mcp:url"


class PromptPolicy(models.TextChoices):
    """How chat treats the system prompts that come with a key (proxy-contract §5)."""

    FILTER = "filter", "filter: keep the lines of the whitelist"
    FORWARD = "forward", "forward: send them as they are"
    CUSTOM = "custom", "custom: the portal's own text in their place"


class ClientProfile(models.TextChoices):
    DETECT = "", "detect"
    GENERIC = "generic"
    LOBEHUB = "lobehub", "LobeHub"


class ApiKey(models.Model):
    """`digest` is HMAC-SHA256 of the secret; the secret itself is nowhere (SPEC 2.2)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=80)
    public_id = models.CharField(max_length=64, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True, blank=True)
    networks = models.JSONField(default=list, blank=True, help_text="Allowed addresses, as CIDR; empty: any.")
    monthly_cap = CreditField(null=True, blank=True)
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    parallel_runs = models.PositiveIntegerField(null=True, blank=True)
    chats_per_day = models.PositiveIntegerField(null=True, blank=True)
    prompt_policy = models.CharField(max_length=7, choices=PromptPolicy, default=PromptPolicy.FILTER)
    client_profile = models.CharField(
        max_length=7, choices=ClientProfile, blank=True, default=ClientProfile.DETECT
    )
    sources_footer = models.BooleanField(default=False, help_text="List the sources behind chat answers.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        app_label = "portal"
        verbose_name = "API key"
        ordering = ("-created_at", "-id")
        indexes = (models.Index(fields=["user", "-created_at", "-id"], name="api_key_by_user"),)

    def __str__(self) -> str:
        return f"{self.name} (sonde_{self.public_id}_…)"
