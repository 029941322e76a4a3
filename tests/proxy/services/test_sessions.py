"""How a cookie comes in, and that one which works is only replaced by one which works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.running import preparation
from portal.services import upstreams
from portal.services.errors import Invalid
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import FaultKind
from proxy.protocol.session import token_of
from proxy.services import sessions
from proxy.services.accounts import jar_of, take_account
from proxy.services.keepalive import check_account
from proxy.services.sessions import SessionRefused, import_from_environment, put_cookie
from tests.portal.people import an_admin
from tests.proxy.accounts import account, token
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db
ALICE = "sandbox-max-alice"


def test_it_makes_an_account_of_the_first_cookie(sandbox: SandboxServer) -> None:
    mine = put_cookie(ALICE, actor=an_admin())

    assert (mine.name, mine.tier, mine.health) == ("max-alice@sandbox.example", "max", "active")
    assert token(mine) == ALICE
    entry = AuditEntry.objects.get(action="web_account.session_replaced")
    assert ALICE not in json.dumps(entry.detail)


@pytest.mark.parametrize(
    "pasted",
    [
        ALICE,
        f"__Secure-next-auth.session-token={ALICE}",
        f"Cookie: cf_clearance=x; __Secure-next-auth.session-token={ALICE}",
        json.dumps({"__Secure-next-auth.session-token": ALICE}),
        json.dumps({"cookies": {"__Secure-next-auth.session-token": ALICE}}),
        f"__Secure-next-auth.session-token.0={ALICE[:9]}; __Secure-next-auth.session-token.1={ALICE[9:]}",
    ],
    ids=["token", "pair", "line", "object", "nested", "parts"],
)
def test_it_takes_every_form_that_people_paste(sandbox: SandboxServer, pasted: str) -> None:
    assert token_of(jar_of(put_cookie(pasted))) == ALICE


def test_it_keeps_what_the_check_rotated(sandbox: SandboxServer) -> None:
    assert token(put_cookie("sandbox-max-rotating-a")) == "sandbox-max-rotating-a.1"


def test_it_replaces_the_cookie_of_the_same_person(sandbox: SandboxServer) -> None:
    account("first", priority=0)
    mine = put_cookie("sandbox-max-alice.old", new_name="alice")
    WebAccount.objects.filter(pk=mine.pk).update(priority=9, health="expired", remaining_pro=3, faults=2)

    again = put_cookie("sandbox-max-alice.new")

    assert again.pk == mine.pk
    assert (again.health, again.remaining_pro, again.faults) == ("active", None, 0)
    assert again.jar_version == mine.jar_version + 1
    assert token(again) == "sandbox-max-alice.new"


def test_it_replaces_the_first_by_priority_for_somebody_new(sandbox: SandboxServer) -> None:
    account("second", priority=2)
    first = account("first", priority=1)

    assert put_cookie("sandbox-max-stranger").pk == first.pk


@pytest.mark.parametrize(
    ("pasted", "kind", "is_dead"),
    [
        ("sandbox-expired-eve", FaultKind.SIGNED_OUT, True),
        ("sandbox-forbidden-eve", FaultKind.FORBIDDEN, True),
        ("sandbox-blocked-eve", FaultKind.BLOCKED, False),
    ],
)
def test_a_cookie_that_is_not_accepted_changes_nothing(
    sandbox: SandboxServer, pasted: str, kind: FaultKind, is_dead: bool
) -> None:
    mine = account()

    with pytest.raises(SessionRefused) as refused:
        put_cookie(pasted, account=mine)

    assert (refused.value.fault.kind, refused.value.is_dead) == (kind, is_dead)
    assert pasted not in str(refused.value)
    assert token(mine) == "sandbox-max-tester"


@pytest.mark.parametrize("pasted", ["", "short", "a=b; c=d", "{", '{"a": 1}', "[]", "x" * 70_000])
def test_what_holds_no_session_is_never_shown_to_anybody(sandbox: SandboxServer, pasted: str) -> None:
    with pytest.raises(Invalid):
        put_cookie(pasted)

    assert not sandbox.web_requests()


def test_the_sandbox_never_sees_a_cookie_of_perplexity(sandbox: SandboxServer) -> None:
    with pytest.raises(Invalid, match="told to use the sandbox"):
        put_cookie("eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..abcdefgh")

    assert not sandbox.web_requests()


def test_perplexity_never_sees_a_cookie_of_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"

    with pytest.raises(Invalid, match="does not use"):
        put_cookie(ALICE)


def test_an_account_keeps_to_its_upstream(sandbox: SandboxServer) -> None:
    live = account("live", token="eyJ-a-session-of-perplexity", sandbox=False)

    with pytest.raises(Invalid, match="keeps to its upstream"):
        put_cookie(ALICE, account=live)

    assert token(live) == "eyJ-a-session-of-perplexity"


def test_an_account_of_the_sandbox_is_not_taken_when_live(settings: Settings) -> None:
    account()
    settings.SONDE_UPSTREAM = "live"

    assert take_account(tier_needed="free", counted=False) is None


def live_cookie(settings: Settings, sandbox: SandboxServer, text: str) -> None:
    """The sandbox in the place of Perplexity itself, with tokens that do not say so."""
    settings.SONDE_UPSTREAM = "live"
    settings.PPLX_WEB_URL = sandbox.url
    settings.PPLX_COOKIE = text


@pytest.fixture
def perplexity(sandbox: SandboxServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> SandboxServer:
    """Only the sandbox answers here, and its tokens tell themselves apart by this word."""
    monkeypatch.setattr(sessions, "_SANDBOX", "nothing-begins-so")
    live_cookie(settings, sandbox, "sandbox-pro-first")
    return sandbox


def the_account() -> WebAccount:
    return WebAccount.objects.get()


def test_it_takes_over_the_cookie_of_the_environment(perplexity: SandboxServer, settings: Settings) -> None:
    settings.ACCOUNT_TYPE = "max"

    import_from_environment()

    mine = the_account()
    assert (mine.name, mine.tier, mine.told_tier, mine.health) == ("PPLX_COOKIE", "max", "pro", "active")
    assert not mine.sandbox
    assert upstreams.is_configured()


def test_it_looks_at_the_same_cookie_once(perplexity: SandboxServer) -> None:
    import_from_environment()
    import_from_environment()

    assert len(perplexity.web_requests("/api/auth/session")) == 1


def test_a_changed_cookie_replaces_one_when_it_is_accepted(
    perplexity: SandboxServer, settings: Settings
) -> None:
    import_from_environment()
    settings.PPLX_COOKIE = "sandbox-pro-second"

    import_from_environment()

    assert token(the_account()) == "sandbox-pro-second"


def test_a_changed_cookie_that_is_refused_is_told_and_not_taken(
    perplexity: SandboxServer, settings: Settings
) -> None:
    import_from_environment()
    settings.PPLX_COOKIE = "sandbox-expired-second"

    import_from_environment()
    import_from_environment()  # and not looked at again

    mine = the_account()
    assert token(mine) == "sandbox-pro-first"
    assert "does not accept" in mine.import_problem
    assert "the one before is still used" in mine.import_problem
    assert len(perplexity.web_requests("/api/auth/session")) == 2


def test_a_changed_cookie_that_cannot_be_checked_is_tried_again(
    perplexity: SandboxServer, settings: Settings
) -> None:
    import_from_environment()
    settings.PPLX_COOKIE = "sandbox-pro-second"
    perplexity.fail_next("unavailable", phase="session", api="web")
    import_from_environment()
    assert token(the_account()) == "sandbox-pro-first"
    assert "could not be checked" in the_account().import_problem

    import_from_environment()

    assert token(the_account()) == "sandbox-pro-second"
    assert the_account().import_problem == ""


def test_a_first_cookie_that_cannot_be_checked_is_used_until_it_can(perplexity: SandboxServer) -> None:
    perplexity.fail_next("challenge", phase="session", api="web")

    import_from_environment()

    assert (the_account().health, token(the_account())) == ("unchecked", "sandbox-pro-first")


def test_a_first_cookie_that_is_refused_is_told(perplexity: SandboxServer, settings: Settings) -> None:
    settings.PPLX_COOKIE = "sandbox-expired-first"

    import_from_environment()

    assert the_account().jar == ""
    assert the_account().import_problem == "Perplexity does not accept the session in PPLX_COOKIE"


def test_a_malformed_cookie_stops_the_start_with_one_line(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"
    settings.PPLX_IMPERSONATE = "off"
    settings.PPLX_COOKIE = "theme=dark; lang=en"

    with pytest.raises(preparation.NotReady, match=r"\APPLX_COOKIE: There is no cookie"):
        preparation.import_environment()


def test_a_browser_that_nobody_knows_stops_the_start_with_one_line(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"
    settings.PPLX_IMPERSONATE = "netscape4"

    with pytest.raises(preparation.NotReady, match=r"\APPLX_IMPERSONATE: "):
        preparation.import_environment()


def test_in_the_sandbox_there_is_an_account_at_once(sandbox: SandboxServer) -> None:
    sessions.ensure_sandbox_account()
    sessions.ensure_sandbox_account()

    mine = the_account()
    assert (mine.name, mine.tier, mine.sandbox) == ("sandbox", "max", True)
    assert check_account(mine).health == "active"


def test_a_live_portal_gets_no_account_of_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"

    sessions.ensure_sandbox_account()

    assert not WebAccount.objects.exists()


def test_an_account_of_the_sandbox_does_not_end_the_sandbox(settings: Settings, tmp_path: Path) -> None:
    settings.SONDE_UPSTREAM, settings.CLUSTER, settings.DATA_DIR = "auto", False, tmp_path
    account()
    assert upstreams.uses_sandbox()

    account("live", sandbox=False)
    assert not upstreams.uses_sandbox()
