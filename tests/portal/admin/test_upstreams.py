"""Stored credentials in the admin site: seen without the secret, and taken away."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.models.audit import AuditEntry
from portal.models.system import Credential
from portal.services import credentials, sealing
from tests.portal.admin.site import Site, told
from tests.proxy.accounts import account

pytestmark = pytest.mark.django_db
SECRET = "pplx-stored-key-1234"


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def row() -> Credential:
    row = Credential.objects.create(name=credentials.PERPLEXITY_API_KEY, hint="1234", standing="accepted")
    row.sealed = sealing.seal(SECRET, row, "sealed")
    row.save()
    return row


@pytest.mark.parametrize("page", ["changelist", "change"])
def test_it_shows_a_credential_by_its_end_alone(site: Site, row: Credential, page: str) -> None:
    shown = site.look(Credential, page, *([row.pk] if page == "change" else [])).text
    assert "…1234" in shown
    assert SECRET not in shown
    assert row.sealed not in shown


def test_it_removes_a_credential_by_its_page_and_writes_it_down(site: Site, row: Credential) -> None:
    site.client.post(site.address(Credential, "delete", row.pk), {"post": "yes"})
    assert credentials.read(credentials.PERPLEXITY_API_KEY) is None
    entry = AuditEntry.objects.get(action="credential.removed")
    assert (entry.actor, entry.target) == (site.admin, "credential:PERPLEXITY_API_KEY")


def test_it_removes_those_that_were_chosen_in_the_list(site: Site, row: Credential) -> None:
    site.act("delete_selected", row, post="yes")
    assert not Credential.objects.exists()
    assert AuditEntry.objects.filter(action="credential.removed").count() == 1


def test_it_says_when_the_environment_will_bring_it_back(
    site: Site, row: Credential, settings: Settings
) -> None:
    settings.PERPLEXITY_API_KEY = SECRET
    said = told(site.act("delete_selected", row, post="yes"))
    assert "PERPLEXITY_API_KEY is still set in the environment: the next start stores it again." in said
    assert "Nothing is left" not in str(said)


@pytest.mark.parametrize(
    ("upstream", "is_cluster", "words"),
    [
        ("auto", False, "the next start brings the sandbox, no run is answered before."),
        ("auto", True, "every run fails from now on, and costs nothing."),
        ("live", False, "every run fails from now on, and costs nothing."),
        ("sandbox", False, ""),
    ],
)
def test_it_says_what_answers_when_nothing_is_left(
    site: Site, row: Credential, settings: Settings, upstream: str, is_cluster: bool, words: str
) -> None:
    settings.SONDE_UPSTREAM, settings.CLUSTER = upstream, is_cluster

    said = told(site.act("delete_selected", row, post="yes"))

    losses = [text for text in said if "Nothing is left" in text]
    assert losses == ([f"Nothing is left that could answer: {words}"] if words else [])


def test_it_says_nothing_while_something_else_can_answer(
    site: Site, row: Credential, settings: Settings
) -> None:
    settings.SONDE_UPSTREAM = "auto"
    account(sandbox=False)

    assert "Nothing is left" not in str(told(site.act("delete_selected", row, post="yes")))
