"""Every page of the admin site, for admins and for nobody else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from portal.models.audit import AuditEntry
from portal.models.keys import ApiKey
from portal.models.ledger import CreditAccount, LedgerEntry, Plan
from portal.models.system import Credential
from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.services import ledger
from portal.services.invitations import create_invitation
from portal.services.keys import create_key
from portal.services.principal import principal_of
from portal.services.users import create_user
from proxy.models.accounts import WebAccount
from proxy.models.catalog import ChatModel, PromptPattern
from research.models.backends import BackendPolicy
from research.models.presets import Preset
from research.models.runs import Run
from tests.portal.admin.site import Site
from tests.portal.people import a_team, somebody
from tests.proxy.accounts import account
from tests.research.people import ask

pytestmark = pytest.mark.django_db

CHAT = [WebAccount, ChatModel, PromptPattern]
EDITED = [User, Team, Membership, ApiKey, Plan, CreditAccount, Preset, BackendPolicy, *CHAT]
READ = [Run, LedgerEntry, AuditEntry]
SHOWN = [*EDITED, *READ, Invitation]
ADDED = [User, Team, Membership, ApiKey, Plan, Preset, Invitation, *CHAT]
MOST_QUERIES = 12


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def crowd(site: Site) -> list[User]:
    """A dozen people in as many teams, each with a key, a run, a web session and an invitation."""
    people = [somebody(None, team=a_team(5)) for _ in range(12)]
    for user in people:
        account(user.email)
        create_key(user, name="a key")
        ask(principal_of(user))
        create_invitation(principal_of(site.admin), user.membership.team)
    return people


def test_it_shows_exactly_these_things() -> None:
    reverse("admin:index")  # loads them

    assert set(admin.site._registry) == {*EDITED, *READ, Invitation, Credential}


def test_it_has_nothing_that_django_objects_to() -> None:
    """`manage.py check` looks at it only when the paths happened to be read before."""
    reverse("admin:index")

    assert admin.site.check(None) == []


@pytest.mark.slow
@pytest.mark.usefixtures("crowd")
def test_it_shows_lists_with_few_statements(site: Site) -> None:
    for model in SHOWN:
        assert model._default_manager.exists(), model
        assert site.queries(model) <= MOST_QUERIES, model


@pytest.mark.slow
@pytest.mark.usefixtures("crowd")
def test_it_shows_each_thing(site: Site) -> None:
    for model in SHOWN:
        row = model._default_manager.order_by("pk")[0]
        assert site.queries(model, "change", row.pk) <= MOST_QUERIES, model


def test_it_has_a_form_for_what_can_be_made(site: Site) -> None:
    for model in ADDED:
        assert site.queries(model, "add") <= MOST_QUERIES, model


def test_it_has_no_form_for_the_rest(site: Site) -> None:
    for model in (*READ, CreditAccount, BackendPolicy):
        assert site.look(model, "add").status_code == 403, model


@pytest.mark.usefixtures("crowd")
def test_it_changes_and_deletes_nothing_that_is_only_read(site: Site) -> None:
    for model in READ:
        row = model._default_manager.order_by("pk")[0]
        for page in ("change", "delete"):
            answer = site.client.post(site.address(model, page, row.pk), {"post": "yes"})
            assert answer.status_code == 403, (model, page)
        assert "delete_selected" not in site.look(model).text, model
        assert model._default_manager.filter(pk=row.pk).exists(), model


@pytest.mark.usefixtures("crowd")
def test_it_deletes_nobody_and_nothing_that_others_point_to(site: Site) -> None:
    for model in (User, ApiKey, CreditAccount, Membership):
        row = model._default_manager.order_by("pk")[0]
        assert site.look(model, "delete", row.pk).status_code == 403, model


@pytest.mark.slow
def test_it_searches_for_anything(site: Site) -> None:
    for model in SHOWN:
        for query in ("a", "@example.org", "resp_" + "0" * 32, "key:", "%", "'", "🦉", "\0"):
            assert site.look(model, q=query).status_code == 200, (model, query)


def test_it_finds_a_run_by_its_public_id(site: Site, crowd: list[User]) -> None:
    run = Run.objects.filter(user=crowd[3]).get()

    found = site.look(Run, q=run.public_id)

    assert [row.pk for row in found.context["cl"].result_list] == [run.pk]


@pytest.mark.usefixtures("crowd")
def test_it_filters_runs(site: Site) -> None:
    found = {"state=queued": 12, "state=failed": 0, "preset=5m": 0, "backend=sonar": 0}

    assert found == {
        one: site.look(Run, **dict([one.split("=")])).context["cl"].result_count for one in found
    }


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        (User, "password__startswith"),
        (User, "password"),
        (ApiKey, "digest__gte"),
        (WebAccount, "jar__startswith"),
        (Credential, "sealed__startswith"),
        (Membership, "user__password__startswith"),
    ],
)
def test_it_filters_by_nothing_that_could_be_guessed_at(site: Site, model: type[Model], lookup: str) -> None:
    assert site.look(model, **{lookup: "a"}).status_code == 400


@pytest.mark.parametrize("lookup", ["membership__role__exact", "is_staff__exact"])
def test_it_filters_people_by_what_the_page_offers(site: Site, lookup: str) -> None:
    assert site.look(User, **{lookup: "1"}).status_code == 200


def test_it_says_in_which_zone_times_are_shown(site: Site) -> None:
    assert "All times are UTC." in site.look(User).text


@pytest.mark.usefixtures("crowd")
def test_it_never_shows_a_digest(site: Site) -> None:
    key = ApiKey.objects.all()[0]

    assert key.digest not in site.look(ApiKey, "change", key.pk).text
    assert key.digest not in site.look(ApiKey).text


def test_it_sends_strangers_and_members_to_the_log_in_page(site: Site) -> None:
    member, stranger = Client(), Client()
    member.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")
    for model in SHOWN:
        for client in (member, stranger):
            answer = client.get(site.address(model))
            assert answer.status_code == 302
            assert "login" in answer.headers["Location"]


def test_it_has_no_password_form_of_its_own(site: Site) -> None:
    answer = Client().get("/admin/login/?next=/admin/")

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/account/login/")
    assert site.client.get("/admin/").status_code == 200


def test_it_lets_an_admin_in_by_email_and_password() -> None:
    create_user("boss@example.org", password="a fine password", is_admin=True)
    client = Client()

    client.post("/account/login/", {"login": "Boss@example.org", "password": "a fine password"})

    assert client.get("/admin/").status_code == 200


def test_it_shows_credits_by_what_they_are_today(site: Site) -> None:
    user = somebody(None, team=a_team(5))
    ledger.reserve(user.pk, "run:a", Decimal("2.5"))

    page = site.look(User, "change", user.pk).text

    assert "102.5" in page
