"""What django-allauth may do here, and what it must not."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.account.urls import urlpatterns as pages_of_allauth
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, resolve, reverse
from django.urls.exceptions import Resolver404
from pytest_django import Settings

from portal.models.users import User
from portal.pages.account import AccountAdapter
from tests.portal.people import somebody

OURS = {
    "/account/login/",
    "/account/logout/",
    "/account/inactive/",
    "/account/reauthenticate/",
    "/account/password/change/",
    "/account/password/reset/",
    "/account/signup/",
}


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


def there(name: str) -> str | None:
    try:
        return reverse(name)
    except NoReverseMatch:
        return None


def test_it_opens_pages_one_by_one() -> None:
    assert {path for page in pages_of_allauth if (path := there(page.name))} == OURS


@pytest.mark.parametrize(
    "path",
    [
        "/account/",
        "/account/email/",
        "/account/confirm-email/",
        "/account/confirm-email/abc/",
        "/account/password/set/",
        "/account/password/reset/done/",
        "/account/password/reset/key/1-abc/",
        "/account/reauthenticate/code/",
        "/account/login/code/confirm/",
    ],
)
def test_it_has_no_page_that_we_have_no_use_for(path: str) -> None:
    with pytest.raises(Resolver404):
        resolve(path)


@pytest.mark.django_db
def test_it_lets_nobody_take_another_email(client: Client, user: User) -> None:
    other = {"email": "boss@example.org", "action_add": "", "action_primary": ""}

    answer = client.post("/account/email/", other)

    assert answer.status_code == 404
    user.refresh_from_db()
    assert user.email != "boss@example.org"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/account/password/reset/", "/account/signup/"])
def test_it_takes_nothing_where_it_only_tells(path: str) -> None:
    before = User.objects.count()

    answer = Client().post(path, {"email": "new@example.org", "password1": "a fine password"})

    assert answer.status_code == 405
    assert User.objects.count() == before


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("/runs", True),
        ("/runs?after=x#y", True),
        ("", False),
        (None, False),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("///evil.example", False),
        ("https://evil.example/", False),
        ("https:evil.example", False),
        ("http://localhost:9/", False),
        ("http://127.0.0.1/", False),
        ("javascript:alert(1)", False),
        ("\thttps://evil.example", False),
    ],
)
def test_it_leads_to_pages_of_ours_only(url: str | None, safe: bool) -> None:
    assert AccountAdapter().is_safe_url(url) is safe


@pytest.mark.django_db
def test_it_leads_home_after_a_log_in_that_was_to_lead_elsewhere(user: User) -> None:
    answer = Client().post(
        "/account/login/?next=http://localhost:9/", {"login": user.email, "password": "a fine password"}
    )

    assert answer.headers["Location"] == "/"


@pytest.mark.parametrize(
    ("trusted", "address"), [(("10.0.0.0/8",), "203.0.113.9"), ((), "10.0.0.1"), (("192.0.2.1",), "10.0.0.1")]
)
def test_it_counts_the_attempts_of_clients_not_of_our_proxy(
    rf: RequestFactory, settings: Settings, trusted: tuple[str, ...], address: str
) -> None:
    settings.TRUSTED_PROXIES = trusted
    request = rf.post("/", REMOTE_ADDR="10.0.0.1", headers={"x-forwarded-for": "203.0.113.9"})

    assert AccountAdapter().get_client_ip(request) == address


def test_it_counts_attempts_that_have_no_address(rf: RequestFactory) -> None:
    request = rf.post("/")
    del request.META["REMOTE_ADDR"]

    assert AccountAdapter().get_client_ip(request)


@pytest.mark.django_db
def test_it_stops_who_guesses_and_nobody_else_behind_the_same_proxy(user: User, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = ("127.0.0.1",)
    user.set_password("a fine password")
    user.save()

    def attempt(email: str, password: str, address: str) -> Any:
        form = {"login": email, "password": password}
        return Client().post("/account/login/", form, headers={"x-forwarded-for": address})

    guesses = [attempt(f"guess{turn}@example.org", "x", "203.0.113.9") for turn in range(31)]

    assert guesses[-1].status_code == 429
    assert "<h1>Too many attempts</h1>" in guesses[-1].text
    assert attempt(user.email, "a fine password", "198.51.100.4").status_code == 302


@pytest.mark.django_db
def test_it_speaks_the_portal_s_own_words(user: User) -> None:
    client = Client()
    account = {"login": user.email, "password": "a fine password"}

    refused = client.post("/account/login/", {**account, "password": "another"})
    welcome = client.post("/account/login/", account, follow=True)
    farewell = client.post("/account/logout/", follow=True)

    assert "This email and this password do not belong together." in refused.content.decode()
    assert not list(welcome.context["messages"])
    assert [str(message) for message in farewell.context["messages"]] == ["You are logged out."]
