from __future__ import annotations

import pytest
from django.contrib.auth import get_user
from django.test import Client, RequestFactory

from portal.models.teams import Membership
from portal.models.users import User
from portal.pages.account import AccountAdapter
from portal.services.invitations import create_invitation
from tests.portal.people import a_team, an_admin, somebody

pytestmark = pytest.mark.django_db

GOOD = {"email": "new@example.org", "name": "New", "password": "a fine password"}


def a_link(email: str = "") -> str:
    return f"/invite/{create_invitation(an_admin(), a_team(), email=email)[1]}"


def test_it_lets_a_person_in_with_a_password_of_their_own(client: Client) -> None:
    link = a_link()
    assert client.get(link).status_code == 200

    answer = client.post(link, GOOD)

    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    user = User.objects.get(email="new@example.org")
    assert get_user(client).pk == user.pk


def test_it_says_the_same_of_used_ended_and_unknown_links(client: Client) -> None:
    link = a_link()
    client.post(link, GOOD)
    used, unknown = Client().get(link), Client().get("/invite/" + "x" * 43)

    assert used.status_code == unknown.status_code == 404
    assert used.content == unknown.content


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password": "short"}, "too short"),
        ({"email": "nothing"}, "not an email address"),
        ({"name": "x" * 121}, "at most 120 characters"),
        ({"name": "nul\0"}, "name has at most"),
        ({"email": "nul\0@example.org"}, "not an email address"),
    ],
)
def test_it_says_what_is_wrong_and_stays_good(client: Client, wrong: dict[str, str], message: str) -> None:
    link = a_link()

    answer = client.post(link, GOOD | wrong)

    assert answer.status_code == 400
    assert message in answer.text
    assert "a fine password" not in answer.text
    assert client.post(link, GOOD).status_code == 302


def test_it_is_for_the_invited_address_whatever_is_sent(client: Client) -> None:
    client.post(a_link("ada@example.org"), GOOD)

    assert User.objects.filter(email="ada@example.org").exists()
    assert not User.objects.filter(email="new@example.org").exists()


def test_it_refuses_other_methods(client: Client) -> None:
    assert client.put(a_link()).status_code == 405


def test_it_needs_the_csrf_token() -> None:
    assert Client(enforce_csrf_checks=True).post(a_link(), GOOD).status_code == 403


def test_it_is_never_kept_in_a_cache(client: Client) -> None:
    assert "no-store" in client.get(a_link()).headers["Cache-Control"]


def test_it_opens_no_other_way_of_signing_up(rf: RequestFactory) -> None:
    assert not AccountAdapter().is_open_for_signup(rf.get("/accounts/signup/"))


def test_it_takes_in_somebody_who_is_logged_in_and_in_no_team(client: Client) -> None:
    loner, link = somebody(), a_link()
    client.force_login(loner, backend="django.contrib.auth.backends.ModelBackend")
    in_a_team = client.get(link).text
    Membership.objects.filter(user=loner).delete()

    assert "one belongs to one team" in in_a_team
    assert "<form" not in in_a_team
    assert f"You are logged in as {loner.email}" in client.get(link).text
    answer = client.post(link, follow=True)

    assert answer.redirect_chain == [("/team", 302)]
    assert f"You are in {Membership.objects.get(user=loner).team} now" in answer.text


def test_it_says_why_somebody_who_is_logged_in_cannot_join(client: Client) -> None:
    somebody_else = a_link("ada@example.org")
    loner = somebody()
    Membership.objects.filter(user=loner).delete()
    client.force_login(loner, backend="django.contrib.auth.backends.ModelBackend")

    answer = client.post(somebody_else)

    assert answer.status_code == 400
    assert "This invitation is for ada@example.org" in answer.text
