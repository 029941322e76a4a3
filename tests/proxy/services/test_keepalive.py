"""What a session check means for its account, and that each check is made once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault, FaultKind
from proxy.services import duties, keepalive
from proxy.services.accounts import note_fault, session_of
from proxy.services.keepalive import check_account, check_due
from tests.portal.people import all_at_once
from tests.proxy.accounts import account, token
from tests.sandbox_server import SandboxServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandbox")]
HOUR = timedelta(hours=1)


def test_it_finds_a_session_alive() -> None:
    mine = check_account(account(token="sandbox-pro-eve", health="expired", retry_at=timezone.now() + HOUR))

    assert (mine.health, mine.retry_at, mine.told_tier) == ("active", None, "pro")
    assert mine.perplexity_user
    assert mine.checked_at is not None


def test_it_keeps_the_operator_s_word_on_the_tier() -> None:
    mine = check_account(account(token="sandbox-free-eve", tier="max"))

    assert (mine.tier, mine.told_tier) == ("max", "free")


@pytest.mark.parametrize("standing", ["expired", "rejected", "forbidden"])
def test_it_finds_a_session_expired(standing: str) -> None:
    mine = check_account(account(token=f"sandbox-{standing}-a", health="active"))

    assert mine.health == "expired"
    assert mine.alert_due_at is not None


@pytest.mark.parametrize("standing", ["blocked", "challenged"])
def test_cloudflare_s_page_is_no_expired_session(standing: str) -> None:
    mine = check_account(account(token=f"sandbox-{standing}-a", health="active"))

    assert mine.health == "blocked"
    assert mine.alert_due_at is None
    assert mine.retry_at is not None
    assert mine.check_due_at >= mine.retry_at


@pytest.mark.parametrize("fault", ["server-error", "bad-gateway", "drop"])
def test_a_breakdown_says_nothing_about_a_session(sandbox: SandboxServer, fault: str) -> None:
    # Twice: the client repeats a GET whose kept connection broke, as any client may.
    sandbox.fail_next(fault, phase="session", api="web", times=2)

    mine = check_account(account(health="active"))

    assert (mine.health, mine.checked_at) == ("active", None)
    assert timezone.now() < mine.check_due_at < timezone.now() + HOUR


def test_it_keeps_the_token_that_the_check_rotated() -> None:
    mine = account(token="sandbox-max-rotating-a")

    check_account(mine)
    check_account(mine)

    assert token(mine) == "sandbox-max-rotating-a.2"


def test_it_keeps_the_token_of_a_dead_answer_untouched() -> None:
    mine = account(token="sandbox-expired-a")

    check_account(mine)

    assert token(mine) == "sandbox-expired-a"


def test_it_checks_what_is_due_and_nothing_else(sandbox: SandboxServer) -> None:
    now = timezone.now()
    account("due", check_due_at=now - HOUR)
    account("not yet", check_due_at=now + HOUR)
    account("switched off", check_due_at=now - HOUR, enabled=False)
    account("empty", check_due_at=now - HOUR, jar="")

    assert check_due() == 1
    assert check_due() == 0

    assert WebAccount.objects.get(name="due").check_due_at > now + 5 * HOUR
    assert len(sandbox.web_requests("/api/auth/session")) == 1


@pytest.mark.django_db(transaction=True)
def test_two_beats_check_an_account_once(sandbox: SandboxServer) -> None:
    account(check_due_at=timezone.now() - HOUR)

    assert sum(int(str(done)) for done in all_at_once(4, lambda _: check_due())) == 1
    assert len(sandbox.web_requests("/api/auth/session")) == 1


def test_a_check_that_its_process_did_not_survive_is_made_again() -> None:
    mine = account(check_due_at=timezone.now() - HOUR)
    duties.claim_accounts("check_due_at", [mine])
    assert check_due() == 0

    WebAccount.objects.update(check_due_at=timezone.now() - timedelta(seconds=1))
    assert check_due() == 1


def test_it_clears_a_suspicion() -> None:
    mine = account(health="active", check_due_at=timezone.now() + HOUR)
    note_fault(mine.pk, Fault(FaultKind.SIGNED_OUT))

    check_due()

    mine.refresh_from_db()
    assert (mine.health, mine.retry_at) == ("active", None)


def test_it_lets_an_account_rest_whose_suspicion_comes_back() -> None:
    """A sign-in wall in spite of a session that lives (perplexity-web §12)."""
    mine = account(health="active")
    for _ in range(2):
        note_fault(mine.pk, Fault(FaultKind.SIGNED_OUT))
        mine.refresh_from_db()
        check_account(mine)

    assert mine.health == "active"
    assert mine.retry_at is not None


def test_a_check_of_a_replaced_cookie_says_nothing_about_the_new_one() -> None:
    mine = account(token="sandbox-expired-a", health="active")
    session = session_of(mine)
    WebAccount.objects.update(jar_version=2)

    keepalive.record(session, Fault(FaultKind.SIGNED_OUT))

    mine.refresh_from_db()
    assert mine.health == "active"


def test_it_says_why_an_account_cannot_be_checked(settings: Settings) -> None:
    mine = account("mine")
    WebAccount.objects.filter(pk=mine.pk).update(jar=account("other").jar)
    mine.refresh_from_db()

    assert "does not open" in check_account(mine).health_reason


def test_at_a_start_every_session_is_due() -> None:
    mine = account(check_due_at=timezone.now() + HOUR)

    keepalive.check_all_soon()

    mine.refresh_from_db()
    assert mine.check_due_at <= timezone.now()
