"""Rounds of discovery against the sandbox: the catalogue, and probes where there is none."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.wire.errors import Unavailable
from proxy.models.accounts import Duty, WebAccount
from proxy.models.catalog import ChatModel
from proxy.services import discovery
from proxy.services.discovery import discover, discover_due
from tests.portal.people import all_at_once
from tests.proxy.accounts import account
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db
MINE = "sandbox-max-tester"


@pytest.fixture
def no_catalogue(sandbox: SandboxServer) -> SandboxServer:
    sandbox.fail_next("server-error", phase="models", api="web", times=100)
    return sandbox


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "PAUSE_SECONDS", 0)  # time, not behaviour


def only(*names: str) -> None:
    """No other model is offered, and none is missing."""
    ChatModel.objects.exclude(pk__in=names).update(enabled=False)


def asked(sandbox: SandboxServer) -> list[str]:
    return [entry["model"] for entry in reversed(sandbox.web_entries())]


def test_it_asks_the_catalogue_and_spends_no_query(sandbox: SandboxServer) -> None:
    account()

    report = discover(manual=True)

    assert "gpt" in report.alive
    assert report.probed == 0
    assert not sandbox.web_entries()


def test_it_takes_the_successor_of_a_model_that_is_gone(sandbox: SandboxServer) -> None:
    account()
    sandbox.order(MINE, retired=["claude50sonnet"], added=["claude52sonnet"])

    report = discover()

    assert report.upgraded["sonnet"] == ("claude50sonnet", "claude52sonnet")
    row = ChatModel.objects.get(pk="sonnet")
    assert (row.preference, row.thinking) == ("claude52sonnet", "claude52sonnetthinking")
    pinned = ChatModel.objects.get(pk="sonnet-5")
    assert pinned.preference == "claude50sonnet"


def test_it_adds_what_is_missing_and_answers(sandbox: SandboxServer) -> None:
    account()
    ChatModel.objects.filter(pk__in=["grok", "kimi-k3"]).delete()
    sandbox.order(MINE, retired=["kimik3"])

    report = discover()

    assert [model.id for model in report.added] == ["grok"]
    row = ChatModel.objects.get(pk="grok")
    assert (row.label, row.preference, row.custom) == ("Grok 4.6", "grok46low", False)
    assert not ChatModel.objects.filter(pk="kimi-k3").exists()


def test_it_probes_where_there_is_no_catalogue(no_catalogue: SandboxServer) -> None:
    account()
    only("gpt", "sonnet")

    report = discover()

    assert sorted(report.alive) == ["gpt", "sonnet"]
    assert asked(no_catalogue) == ["gpt56_terra", "claude50sonnet"]


def test_a_probe_that_fails_is_its_own_model_s_trouble(no_catalogue: SandboxServer) -> None:
    account()
    only("gpt", "sonnet")
    no_catalogue.fail_next("server-error", phase="submit", api="web")

    report = discover()

    assert [one.model for one in report.unavailable] == ["gpt"]
    assert report.alive == ["sonnet"]


def test_it_stops_asking_when_the_account_is_in_trouble(no_catalogue: SandboxServer) -> None:
    mine = account()
    no_catalogue.fail_next("challenge", phase="submit", api="web")

    report = discover()

    assert report.probed == 1
    assert len(report.unavailable) > 1
    assert not no_catalogue.web_entries()
    mine.refresh_from_db()
    assert mine.health == "blocked"


def test_it_asks_with_the_highest_tier(sandbox: SandboxServer) -> None:
    account("pro", tier="pro")
    account("max", tier="max", priority=9)

    discover()

    assert sandbox.web_requests("/rest/models/config")[0]["account"] == "sandbox-max-max"


def test_it_needs_a_session(sandbox: SandboxServer) -> None:
    with pytest.raises(Unavailable):
        discover()


def test_it_is_due_first_after_one_interval(sandbox: SandboxServer, settings: Settings) -> None:
    account()
    settings.PROBE_INTERVAL_HOURS = 24
    assert discover_due() is None

    Duty.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    assert discover_due() is not None

    due_at = Duty.objects.get().due_at
    assert timedelta(hours=23) < due_at - timezone.now() <= timedelta(hours=24)


@pytest.mark.django_db(transaction=True)
def test_two_beats_make_one_round(sandbox: SandboxServer) -> None:
    account()
    Duty.objects.create(name="discovery", due_at=timezone.now() - timedelta(hours=1))

    rounds = [done for done in all_at_once(4, lambda _: discover_due()) if done is not None]

    assert len(rounds) == 1
    assert len(sandbox.web_requests("/rest/models/config")) == 1


def test_a_round_without_a_session_waits_for_the_next(sandbox: SandboxServer) -> None:
    Duty.objects.create(name="discovery", due_at=timezone.now() - timedelta(hours=1))

    assert discover_due() is None
    assert Duty.objects.get().due_at > timezone.now()
    assert not WebAccount.objects.exists()
