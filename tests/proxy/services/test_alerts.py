"""Who is told what, and how often: an expired session, once; Cloudflare, never."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from proxy.models.accounts import WebAccount
from proxy.protocol.discovery import Report
from proxy.protocol.model_table import SEED
from proxy.services import alerts
from proxy.services.keepalive import check_account
from tests.portal.people import all_at_once
from tests.proxy.accounts import account
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db
TOPIC = "operators"


@pytest.fixture(autouse=True)
def _ntfy(sandbox: SandboxServer, settings: Settings) -> None:
    settings.NTFY_URL = sandbox.url
    settings.NTFY_TOPIC = TOPIC


def expire(**fields: Any) -> WebAccount:
    return check_account(account(token="sandbox-expired-a", **fields))


def test_it_tells_of_an_expired_session(sandbox: SandboxServer) -> None:
    mine = expire()

    assert alerts.send_due() == 1

    message = sandbox.messages(TOPIC)[0]
    assert message["title"] == "A Perplexity session has expired"
    assert "tester" in message["message"]
    assert "/admin/proxy/webaccount/" in message["message"]
    assert (message["priority"], sorted(message["tags"])) == (4, ["key", "warning"])
    assert message["click"].endswith("/admin/proxy/webaccount/")
    assert [(one["action"], one["url"]) for one in message["actions"]] == [("view", message["click"])]
    assert "sandbox-expired" not in str(message)
    mine.refresh_from_db()
    assert mine.alerted_at is not None


def test_it_tells_it_once() -> None:
    expire()
    alerts.send_due()

    assert alerts.send_due() == 0


@pytest.mark.django_db(transaction=True)
def test_two_beats_tell_it_once(sandbox: SandboxServer) -> None:
    expire()

    assert sum(int(str(sent)) for sent in all_at_once(3, lambda _: alerts.send_due())) == 1
    assert len(sandbox.messages(TOPIC)) == 1


@pytest.mark.parametrize("standing", ["blocked", "challenged"])
def test_it_never_tells_of_cloudflare(standing: str) -> None:
    check_account(account(token=f"sandbox-{standing}-a"))

    assert alerts.send_due() == 0


def test_the_cooldown_begins_with_a_message_that_was_delivered(settings: Settings) -> None:
    settings.NTFY_TOPIC = "busy-topic"
    mine = expire()
    assert alerts.send_due() == 0
    mine.refresh_from_db()
    assert mine.alerted_at is None

    settings.NTFY_TOPIC = TOPIC
    WebAccount.objects.update(alert_due_at=timezone.now())  # a minute later
    assert alerts.send_due() == 1


@pytest.mark.parametrize(("minutes", "told"), [(59, 0), (61, 1)])
def test_it_is_silent_during_the_cooldown(minutes: int, told: int) -> None:
    expire(alerted_at=timezone.now() - timedelta(minutes=minutes))

    assert alerts.send_due() == told


def test_it_forgets_an_alert_when_the_session_is_well_again() -> None:
    mine = expire()
    WebAccount.objects.update(health="active")

    assert alerts.send_due() == 0
    mine.refresh_from_db()
    assert mine.alerted_at is None


def test_it_tells_what_a_round_of_discovery_changed(sandbox: SandboxServer) -> None:
    report = Report(added=[SEED[2]], upgraded={"sonnet": ("claude50sonnet", "claude51sonnet")})

    assert alerts.tell_discovery(report)

    message = sandbox.messages(TOPIC)[0]
    assert message["title"] == "Chat models changed"
    assert message["message"] == "New: GPT-5.6 Terra\nsonnet is now answered by claude51sonnet"


def test_it_tells_nothing_of_a_round_without_changes(sandbox: SandboxServer) -> None:
    assert not alerts.tell_discovery(Report(alive=["gpt"]))
    assert not sandbox.messages(TOPIC)
