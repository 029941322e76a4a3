"""What administrators are told: a session that expired, models that changed. Never Cloudflare.

An alert is due in the row of its account, so that it survives a restart and a server of messages
that is away. The cooldown begins with a message that was delivered (perplexity-web §16).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from portal.services import notify
from portal.services.notify import Notice
from proxy.models.accounts import WebAccount
from proxy.protocol.discovery import Report
from proxy.services import duties

RETRY = timedelta(minutes=1)


def expiry_due(account: WebAccount, now: datetime) -> None:
    """An expired session was seen: it is to be told, unless it was not long ago. The caller saves."""
    cooldown = timedelta(seconds=settings.NTFY_COOLDOWN_SECS)
    if account.alert_due_at is None and (account.alerted_at is None or account.alerted_at + cooldown <= now):
        account.alert_due_at = now


def send_due() -> int:
    """Tell of every account whose alert is due; how many messages were delivered."""
    due = WebAccount.objects.filter(
        enabled=True, health=WebAccount.Health.EXPIRED, alert_due_at__lte=timezone.now()
    )
    return sum(_tell(account) for account in duties.claim_accounts("alert_due_at", due, RETRY))


def _tell(account: WebAccount) -> bool:
    if not notify.send(_expired(account)):
        return False
    WebAccount.objects.filter(pk=account.pk, alert_due_at=account.alert_due_at).update(
        alerted_at=timezone.now(), alert_due_at=None
    )
    return True


def tell_discovery(report: Report) -> bool:
    """Whether anything was to be told, and was delivered."""
    lines = [f"New: {model.label or model.id}" for model in report.added]
    lines += [f"{name} is now answered by {new}" for name, (_, new) in report.upgraded.items()]
    if not lines:
        return False
    return notify.send(
        Notice("Chat models changed", "\n".join(lines), ("sparkles",), link=_admin("chatmodel"))
    )


def _expired(account: WebAccount) -> Notice:
    return Notice(
        "A Perplexity session has expired",
        f"The account {account} is signed out. Put a new cookie in at {_admin('webaccount')}",
        ("warning", "key"),
        is_urgent=True,
        link=_admin("webaccount"),
    )


def _admin(model: str) -> str:
    return f"{settings.PUBLIC_URL}/admin/proxy/{model}/"
