"""What is true of every page: who gets in, the shell around it, errors in its style."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user
from django.template.loader import render_to_string
from django.test import Client
from pytest_django import Settings

from portal.models.users import User
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db
PAGES = ("/", "/runs", "/chat", "/keys", "/connect", "/team", "/team/reports", "/account/password/change/")
OPEN_PAGES = ("/account/login/", "/account/password/reset/", "/account/signup/", "/invite/nothing")


@pytest.fixture
def user() -> User:
    user = somebody()
    user.set_password("a fine password")
    user.save()
    return user


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.parametrize("path", PAGES)
def test_it_is_strict_about_where_things_come_from(client: Client, path: str) -> None:
    policy = client.get(path).headers["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_it_marks_the_place_one_is_at(client: Client, path: str) -> None:
    page = client.get(path).text

    assert page.count('aria-current="page"') == (path in PAGES[:-1])
    assert '<html lang="en">' in page
    assert page.count("<main") == page.count("<h1") == 1


@pytest.mark.parametrize("path", [*PAGES, *OPEN_PAGES])
def test_it_labels_every_page_as_sandbox_when_it_is_one(
    client: Client, settings: Settings, path: str
) -> None:
    settings.SONDE_UPSTREAM = "sandbox"
    labelled = client.get(path, follow=True).text
    settings.SONDE_UPSTREAM = "live"

    assert "no research is made" in labelled
    assert "no research is made" not in client.get(path, follow=True).text


def test_it_says_when_there_is_nothing_that_could_answer(client: Client, settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "live"
    without = client.get("/").text
    settings.PERPLEXITY_API_KEY = "pplx-something"

    assert "No upstream." in without
    assert "No upstream." not in client.get("/").text


def test_it_logs_in_and_out(user: User) -> None:
    client = Client()

    wrong = client.post("/account/login/", {"login": user.email, "password": "wrong"})
    right = client.post("/account/login/?next=/keys", {"login": user.email, "password": "a fine password"})
    inside = get_user(client).is_authenticated
    client.post("/account/logout/")

    assert wrong.status_code == 200
    assert 'role="alert"' in wrong.text
    assert right.headers["Location"] == "/keys"
    assert inside
    assert not get_user(client).is_authenticated


def test_it_changes_a_password(client: Client, user: User) -> None:
    new = {"password1": "another fine one", "password2": "another fine one"}

    wrong = client.post("/account/password/change/", {"oldpassword": "wrong", **new})
    client.post("/account/password/change/", {"oldpassword": "a fine password", **new})

    assert 'aria-invalid="true"' in wrong.text
    assert 'id="id_oldpassword_error"' in wrong.text
    user.refresh_from_db()
    assert user.check_password("another fine one")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/account/password/reset/", "Sonde sends no mail"),
        ("/account/signup/", "By invitation only"),
        ("/account/inactive/", "This account is disabled"),
    ],
)
def test_it_is_honest_about_what_it_does_not_do(path: str, words: str) -> None:
    page = Client().get(path).text

    assert words in page
    assert "<input" not in page


def test_it_shows_the_administration_to_admins_only(client: Client) -> None:
    admin = Client()
    admin.force_login(somebody(admin=True), backend="django.contrib.auth.backends.ModelBackend")

    assert "Administration" not in client.get("/keys").text
    assert "Administration" in admin.get("/keys").text


@pytest.mark.parametrize("template", ["400.html", "500.html"])
def test_it_shows_errors_that_come_without_any_context(template: str) -> None:
    page = render_to_string(template)

    assert "<h1>" in page
    assert "sonde.css" in page


def test_it_has_one_page_for_everything_that_is_not_there(client: Client) -> None:
    answer = client.get("/nothing/here")

    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


@pytest.mark.parametrize("path", ["/", "/runs", "/keys"])
def test_it_asks_the_database_little(
    client: Client, path: str, django_assert_max_num_queries: Callable[..., object]
) -> None:
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]  # a fixture without types
        client.get(path)
