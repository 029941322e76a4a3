"""Upstream keys on their way from the environment into the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from portal.models.audit import AuditEntry
from portal.models.system import Credential
from portal.services import credentials, network, sealing
from portal.services.credentials import PERPLEXITY_API_KEY, import_from_environment, read
from tests.portal.listener import Listener

pytestmark = pytest.mark.django_db

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def upstream(settings: Settings) -> Iterator[Listener]:
    """Accepts every key until its status is changed."""
    with Listener() as listener:
        settings.PERPLEXITY_BASE_URL = listener.url
        yield listener
        network.close()


def start_with(settings: Settings, key: str) -> Credential:
    settings.PERPLEXITY_API_KEY = key
    import_from_environment()
    return Credential.objects.get(name=PERPLEXITY_API_KEY)


def test_it_takes_a_key_over_and_seals_it(settings: Settings, upstream: Listener) -> None:
    row = start_with(settings, "pplx-first-key-1234")

    assert (read(PERPLEXITY_API_KEY), row.hint, row.standing) == ("pplx-first-key-1234", "1234", "accepted")
    assert "pplx" not in row.sealed
    assert upstream.headers[0]["authorization"] == "Bearer pplx-first-key-1234"


def test_it_writes_down_that_a_key_was_taken_over_but_not_the_key(
    settings: Settings, upstream: Listener
) -> None:
    start_with(settings, "pplx-first-key-1234")

    entry = AuditEntry.objects.get(action="credential.imported")
    assert "1234" not in f"{entry.target} {entry.detail}"


def test_it_asks_about_a_known_key_only_once(settings: Settings, upstream: Listener) -> None:
    for _ in range(3):
        start_with(settings, "pplx-first-key-1234")

    assert len(upstream.requests) == 1


def test_it_replaces_a_key_by_one_that_is_accepted(settings: Settings, upstream: Listener) -> None:
    start_with(settings, "pplx-first-key-1234")

    row = start_with(settings, "pplx-second-key-5678")

    assert (read(PERPLEXITY_API_KEY), row.hint, row.problem) == ("pplx-second-key-5678", "5678", "")


def test_it_keeps_the_old_key_when_the_new_one_is_refused(settings: Settings, upstream: Listener) -> None:
    start_with(settings, "pplx-first-key-1234")
    upstream.status = 401

    row = start_with(settings, "pplx-wrong-key-0000")

    assert (read(PERPLEXITY_API_KEY), row.standing) == ("pplx-first-key-1234", "accepted")
    assert row.problem.startswith("the new value in the environment was refused")


def test_it_does_not_ask_again_about_a_key_that_was_refused(settings: Settings, upstream: Listener) -> None:
    start_with(settings, "pplx-first-key-1234")
    upstream.status = 401

    for _ in range(3):
        start_with(settings, "pplx-wrong-key-0000")

    assert len(upstream.requests) == 2


def test_it_forgets_the_complaint_when_the_right_key_is_back(settings: Settings, upstream: Listener) -> None:
    start_with(settings, "pplx-first-key-1234")
    upstream.status = 401
    start_with(settings, "pplx-wrong-key-0000")
    upstream.status = 200

    assert start_with(settings, "pplx-first-key-1234").problem == ""


def test_it_does_not_keep_a_first_key_that_is_refused(settings: Settings, upstream: Listener) -> None:
    upstream.status = 401

    row = start_with(settings, "pplx-wrong-key-0000")

    assert (read(PERPLEXITY_API_KEY), row.sealed, row.standing) == (None, "", "refused")
    assert row.problem == f"was refused by {upstream.url}"


@pytest.mark.parametrize("status", [403, 429, 500])
def test_it_uses_a_first_key_that_could_not_be_judged(
    settings: Settings, upstream: Listener, status: int
) -> None:
    upstream.status = status

    row = start_with(settings, "pplx-first-key-1234")

    assert (read(PERPLEXITY_API_KEY), row.standing) == ("pplx-first-key-1234", "unchecked")


def test_it_asks_again_about_a_key_that_could_not_be_judged(settings: Settings, upstream: Listener) -> None:
    upstream.status = 500
    start_with(settings, "pplx-first-key-1234")
    upstream.status = 200

    row = start_with(settings, "pplx-first-key-1234")

    assert (row.standing, row.problem) == ("accepted", "")


def test_it_keeps_a_working_key_while_the_new_one_cannot_be_judged(
    settings: Settings, upstream: Listener
) -> None:
    start_with(settings, "pplx-first-key-1234")
    settings.PERPLEXITY_BASE_URL = NOWHERE
    start_with(settings, "pplx-second-key-5678")
    assert read(PERPLEXITY_API_KEY) == "pplx-first-key-1234"

    settings.PERPLEXITY_BASE_URL = upstream.url
    start_with(settings, "pplx-second-key-5678")

    assert read(PERPLEXITY_API_KEY) == "pplx-second-key-5678"


def test_it_keeps_a_key_that_left_the_environment(settings: Settings, upstream: Listener) -> None:
    start_with(settings, "pplx-first-key-1234")

    start_with(settings, "")

    assert read(PERPLEXITY_API_KEY) == "pplx-first-key-1234"


def test_it_knows_nothing_of_a_credential_that_nobody_gave() -> None:
    assert (read("OTHER"), credentials.find("OTHER")) == (None, None)


def test_it_does_not_open_a_key_that_was_copied_to_another_row(
    settings: Settings, upstream: Listener
) -> None:
    row = start_with(settings, "pplx-first-key-1234")
    Credential.objects.create(name="OTHER", sealed=row.sealed)

    with pytest.raises(sealing.SealError):
        read("OTHER")
