"""Stored credentials in the admin site: seen without the secret, and taken away."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.models.audit import AuditEntry
from portal.models.system import Credential
from portal.services import credentials, sealing
from tests.portal.admin.site import Site, told

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
