"""Accounts of the sandbox for tests: a token's words say how its session behaves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from portal.services.upstreams import WebUpstream
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.protocol.session import TOKEN
from proxy.services.accounts import jar_of, seal_jar
from proxy.upstream.web import Session
from tests.sandbox_server import SandboxServer


def session(sandbox: SandboxServer, token: str = SandboxServer.token) -> Session:
    """A session that no account has."""
    upstream = WebUpstream(sandbox.url, sandbox.url, sandbox=True)
    return Session(0, "tester", "max", {TOKEN: token}, 1, upstream)


def account(name: str = "tester", token: str | None = None, **fields: Any) -> WebAccount:
    """An account of the highest tier, with a session of the sandbox that begins `sandbox-max-`."""
    made = WebAccount.objects.create(
        name=name, tier="max", sandbox=True, jar_version=1, jar_changed_at=timezone.now()
    )
    seal_jar(made, {TOKEN: f"sandbox-max-{name}" if token is None else token})
    for field, value in fields.items():
        setattr(made, field, value)
    made.save()
    return made


def token(account: WebAccount) -> str:
    return jar_of(WebAccount.objects.get(pk=account.pk))[TOKEN]


def occupy(account: WebAccount, user_id: int, turns: int = 1) -> None:
    """Open turns, as chats in progress have them."""
    lease = timezone.now() + timedelta(minutes=5)
    for _ in range(turns):
        ChatTurn.objects.create(
            user_id=user_id, account=account, door="rest", model="gpt", price=0, lease_until=lease
        )
