"""The commands for web sessions, and what doctor and rotate_keys do with them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.models.system import Credential
from portal.running.checkup import Verdict, check_up
from portal.services import sealing
from portal.services.sealing import new_key
from proxy.models.accounts import WebAccount
from proxy.models.chats import Continuation
from proxy.services.cookie_steps import COOKIE_STEPS
from tests.environment import ROOT
from tests.portal.people import somebody
from tests.proxy.accounts import account, token
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db
EVE = "sandbox-pro-evelyn"
OLD, NEW = (new_key().replace("k1:", f"{name}:") for name in ("old", "new"))


@pytest.fixture(autouse=True)
def _in_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"


def run(command: str, *arguments: str, stdin: str | None = None, monkeypatch: Any = None) -> str:
    out = io.StringIO()
    if stdin is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def test_set_cookie_reads_standard_input(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    said = run("set_cookie", stdin=f"{EVE}\n", monkeypatch=monkeypatch)

    assert said == "pro-evelyn@sandbox.example is signed in; its tier is pro\n"
    assert token(WebAccount.objects.get()) == EVE


def test_set_cookie_is_for_the_account_that_is_named(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account("first")
    second = account("second", priority=3)

    run("set_cookie", "--account", "second", stdin=EVE, monkeypatch=monkeypatch)

    assert token(second) == EVE
    with pytest.raises(CommandError, match="no account called 'third'"):
        run("set_cookie", "--account", "third", stdin=EVE, monkeypatch=monkeypatch)


def test_set_cookie_replaces_nothing_by_what_is_not_accepted(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = account()

    with pytest.raises(
        CommandError, match=r"Perplexity does not accept this session\. Nothing was changed\."
    ):
        run("set_cookie", stdin="sandbox-expired-evelyn", monkeypatch=monkeypatch)

    assert token(mine) == "sandbox-max-tester"


def test_check_account_says_how_each_is(sandbox: SandboxServer) -> None:
    account("good")
    account("bad", token="sandbox-expired-a", priority=1)

    with pytest.raises(SystemExit) as exit:
        run("check_account")

    assert exit.value.code == 1
    assert run("check_account", "good") == "good (max) is active\n"
    assert WebAccount.objects.get(name="bad").health == "expired"


def test_discover_models_says_what_changed(sandbox: SandboxServer) -> None:
    account()
    sandbox.order("sandbox-max-tester", retired=["grok46low"], added=["grok47low"])

    said = run("discover_models")

    assert "upgraded  grok: grok46low -> grok47low\n" in said
    assert said.endswith("models answer; 0 were asked\n")


def test_discover_models_needs_a_session(sandbox: SandboxServer) -> None:
    with pytest.raises(CommandError, match="No Perplexity session is configured"):
        run("discover_models")


@pytest.mark.parametrize(
    ("fields", "verdict", "text"),
    [
        ({"health": "active"}, Verdict.OK, "tester (max) is active"),
        ({"health": "expired", "health_reason": "over"}, Verdict.WRONG, "tester (max) is expired: over"),
        ({"health": "blocked"}, Verdict.OK, "tester (max) is blocked"),
        ({"import_problem": "refused"}, Verdict.WRONG, "tester: refused"),
    ],
)
def test_doctor_says_how_web_sessions_are(fields: dict[str, Any], verdict: Verdict, text: str) -> None:
    account(**fields)

    found = [(one.verdict, one.text) for one in check_up() if one.topic == "web sessions"]

    assert (verdict, text) in found


def test_doctor_says_that_nobody_can_be_told(settings: Settings) -> None:
    settings.NTFY_TOPIC = "pplx-proxy"

    assert any(one.topic == "alerts" and one.verdict is Verdict.WRONG for one in check_up())


@pytest.fixture
def use_ring(settings: Settings) -> Iterator[Any]:
    def use(*keys: str) -> None:
        settings.SONDE_ENCRYPTION_KEYS = ",".join(keys)
        sealing.ring.cache_clear()

    yield use
    sealing.ring.cache_clear()


def test_rotate_keys_covers_cookies_and_threads(use_ring: Any) -> None:
    use_ring(OLD)
    mine = account()
    thread = Continuation(digest="d", user=somebody(), account=mine)
    thread.thread = sealing.seal("the thread", thread, "thread")
    thread.save()
    use_ring(NEW, OLD)

    assert run("rotate_keys") == "key 'new': 2 sealed anew, 0 were already\n"

    use_ring(NEW)
    assert token(mine) == "sandbox-max-tester"
    thread.refresh_from_db()
    assert sealing.unseal(thread, "thread") == "the thread"
    assert not Credential.objects.exists()


def test_the_readme_says_how_a_cookie_is_copied() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").replace("`", "").split())

    assert all(step in readme for step in COOKIE_STEPS)
