"""Which upstream a portal speaks to, and how it knows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from portal.models.system import Credential
from portal.services import sealing, upstreams
from portal.services.credentials import PERPLEXITY_API_KEY

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _embedded_without_a_credential(settings: Settings, tmp_path: Path) -> None:
    settings.CLUSTER = False
    settings.SONDE_UPSTREAM = "auto"
    settings.DATA_DIR = tmp_path


def a_stored_key(text: str = "pplx-stored-key-1234", **more: str) -> None:
    row = Credential.objects.create(name=PERPLEXITY_API_KEY, **more)
    row.sealed = sealing.seal(text, row, "sealed") if text else ""
    row.save()


def the_sandbox_listens_on(port: int) -> None:
    upstreams.sandbox_note().write_text(json.dumps({"port": port}))


def test_it_is_the_sandbox_when_nobody_gave_a_credential() -> None:
    the_sandbox_listens_on(8765)

    assert upstreams.perplexity_api() == upstreams.Upstream(
        "http://127.0.0.1:8765", "pplx-sandbox", sandbox=True
    )
    assert upstreams.serves_sandbox()


@pytest.mark.parametrize("note", [None, "", "{}", '{"port": "x"}', "[]"])
def test_it_is_none_before_the_sandbox_ever_listened(note: str | None) -> None:
    if note is not None:
        upstreams.sandbox_note().write_text(note)

    assert upstreams.perplexity_api() is None


def test_it_is_the_stored_key_s_upstream(settings: Settings) -> None:
    a_stored_key()

    assert upstreams.perplexity_api() == upstreams.Upstream(
        settings.PERPLEXITY_BASE_URL, "pplx-stored-key-1234"
    )
    assert not upstreams.serves_sandbox()


def test_it_never_replaces_a_refused_key_by_the_sandbox() -> None:
    a_stored_key("", standing="refused", problem="was refused by https://api.perplexity.ai")

    assert upstreams.perplexity_api() is None
    assert upstreams.describe().endswith("PERPLEXITY_API_KEY was refused by https://api.perplexity.ai")


def test_it_leaves_the_sandbox_when_there_is_a_cookie(settings: Settings) -> None:
    settings.PPLX_COOKIE = "session"

    assert not upstreams.uses_sandbox()


def test_it_is_none_in_a_cluster_without_a_credential(settings: Settings) -> None:
    settings.CLUSTER = True

    assert upstreams.perplexity_api() is None
    assert upstreams.describe().startswith("none: set PERPLEXITY_API_KEY")


def test_it_is_the_sandbox_of_a_cluster_that_was_told_so(settings: Settings) -> None:
    settings.CLUSTER, settings.SONDE_UPSTREAM = True, "sandbox"
    a_stored_key()

    assert upstreams.perplexity_api() == upstreams.Upstream(
        "http://127.0.0.1:8899", "pplx-sandbox", sandbox=True
    )
    assert upstreams.serves_sandbox()


@pytest.mark.parametrize("url", ["http://127.0.0.1:7000", "http://localhost:7000", "http://[::1]:7000"])
@pytest.mark.parametrize("cluster", [True, False])
def test_it_takes_a_sandbox_that_somebody_else_runs(settings: Settings, url: str, cluster: bool) -> None:
    settings.CLUSTER, settings.SONDE_UPSTREAM, settings.PERPLEXITY_BASE_URL = cluster, "sandbox", url

    assert upstreams.perplexity_api() == upstreams.Upstream(url, "pplx-sandbox", sandbox=True)
    assert not upstreams.serves_sandbox()


def test_it_sends_the_sandbox_s_key_to_no_other_machine(settings: Settings) -> None:
    settings.SONDE_UPSTREAM, settings.PERPLEXITY_BASE_URL = "sandbox", "https://api.perplexity.ai"
    the_sandbox_listens_on(8765)

    upstream = upstreams.perplexity_api()

    assert upstream is not None
    assert upstream.base_url == "http://127.0.0.1:8765"


def test_it_stays_live_when_told_so(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"

    assert upstreams.perplexity_api() is None
    assert not upstreams.uses_sandbox()


def test_it_shows_no_more_of_a_key_than_its_end() -> None:
    a_stored_key(hint="1234", standing="accepted")

    assert upstreams.describe() == "https://api.perplexity.ai: the key …1234 is accepted"


def test_it_remembers_for_seconds_what_to_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(upstreams, "_expected", (0.0, False))
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert upstreams.expects_sandbox()
    a_stored_key()
    assert upstreams.expects_sandbox()
    now += upstreams.KEPT_SECONDS
    assert not upstreams.expects_sandbox()


def test_it_expects_at_once_what_the_settings_say(settings: Settings) -> None:
    for told in ("sandbox", "live", "sandbox"):
        settings.SONDE_UPSTREAM = told
        assert upstreams.expects_sandbox() is (told == "sandbox")


def test_it_counts_a_responses_endpoint_as_an_upstream(settings: Settings) -> None:
    settings.RESPONSES_BACKEND_URL = "http://me:secret@10.0.0.7:8000"
    settings.RESPONSES_BACKEND_KEY = "sonde_key"

    assert upstreams.responses_api() == upstreams.Upstream("http://me:secret@10.0.0.7:8000/v1", "sonde_key")
    assert upstreams.describe() == "10.0.0.7; there is no PERPLEXITY_API_KEY"


def test_it_asks_no_endpoint_in_a_portal_that_is_told_to_simulate(settings: Settings) -> None:
    settings.RESPONSES_BACKEND_URL, settings.SONDE_UPSTREAM = "https://api.example/v1", "sandbox"

    assert upstreams.responses_api() is None


def test_it_speaks_to_the_web_where_the_settings_say(settings: Settings) -> None:
    settings.PPLX_WEB_URL, settings.FLARESOLVERR_URL = "https://web.example", "http://solver.example:8191"

    assert upstreams.live_web() == upstreams.WebUpstream("https://web.example", "http://solver.example:8191")


def test_it_says_that_web_sessions_can_answer(settings: Settings) -> None:
    settings.PPLX_COOKIE = "session"

    assert upstreams.describe() == "Perplexity web sessions; there is no PERPLEXITY_API_KEY"
