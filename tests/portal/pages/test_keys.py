from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from portal.models.keys import ApiKey
from portal.models.users import User
from portal.pages.keys import PAGE
from portal.services.keys import authenticate_key, create_key
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db
GOOD = {"name": "Nightly", "scopes": ["research"], "expires": ""}


@pytest.fixture
def user() -> User:
    return somebody()


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def tokens_in(text: str) -> set[str]:
    return set(re.findall(r"sonde_[a-z0-9]{10}_[A-Za-z0-9_-]{43}", text))


def test_it_shows_a_new_key_once_and_ready_to_use(client: Client, user: User) -> None:
    answer = client.post("/keys", GOOD)

    (token,) = tokens_in(answer.text)
    principal = authenticate_key(token, None)
    assert principal is not None
    assert (principal.user_id, principal.scopes) == (user.pk, frozenset({"research"}))
    assert f"Authorization: Bearer {token}" in answer.text
    assert "no-store" in answer.headers["Cache-Control"]
    assert not tokens_in(client.get("/keys").text)


def test_it_keeps_a_new_key_out_of_session_and_cookies(client: Client) -> None:
    answer = client.post("/keys", GOOD)

    (token,) = tokens_in(answer.text)
    kept = [str(dict(client.session.items())), str(client.cookies)]
    assert not any(token in text for text in kept)


def test_it_makes_a_key_with_limits(client: Client) -> None:
    limits = {"monthly_cap": "12.5", "requests_per_minute": "30", "parallel_runs": "2"}

    client.post("/keys", GOOD | limits | {"networks": "10.0.0.0/8", "expires": "30"})

    key = ApiKey.objects.get()
    assert (str(key.monthly_cap), key.requests_per_minute, key.parallel_runs) == ("12.5", 30, 2)
    assert key.networks == ["10.0.0.0/8"]
    assert key.expires_at is not None
    assert 29 <= (key.expires_at - timezone.now()).days <= 30


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"scopes": ["admin"]}, "scopes"),
        ({"expires": "31"}, "expires"),
        ({"monthly_cap": "much"}, "monthly_cap"),
        ({"monthly_cap": "NaN"}, "monthly_cap"),
        ({"monthly_cap": "-1"}, "monthly_cap"),
        ({"requests_per_minute": "-1"}, "requests_per_minute"),
        ({"requests_per_minute": "9" * 40}, "requests_per_minute"),
        ({"requests_per_minute": "0" * 11 + "9" * 5000}, "requests_per_minute"),
        ({"parallel_runs": "1.5"}, "parallel_runs"),
        ({"networks": "here, there"}, "networks"),
    ],
)
def test_it_says_what_is_wrong_beside_the_field_and_keeps_the_rest(
    client: Client, wrong: dict[str, object], field: str
) -> None:
    answer = client.post("/keys", {**GOOD, "name": "Kept", "parallel_runs": "7", **wrong})

    assert answer.status_code == 400
    assert answer.context["errors"].keys() == {field}
    assert 'value="7"' in answer.text or field == "parallel_runs"
    assert 'value="Kept"' in answer.text or field == "name"
    assert not ApiKey.objects.exists()


def test_it_offers_the_admin_scope_to_admins_only(client: Client) -> None:
    admin = Client()
    admin.force_login(somebody(admin=True), backend="django.contrib.auth.backends.ModelBackend")

    assert 'value="admin"' not in client.get("/keys").text
    assert 'value="admin"' in admin.get("/keys").text


def test_it_rotates_a_key(client: Client, user: User) -> None:
    key, before = create_key(user, name="Nightly")

    answer = client.post(f"/keys/{key.public_id}/rotate")

    (after,) = tokens_in(answer.text)
    assert authenticate_key(before, None) is None
    assert authenticate_key(after, None) is not None
    assert "The old one has stopped." in answer.text


def test_it_rotates_no_key_that_is_revoked(client: Client, user: User) -> None:
    key, _ = create_key(user, name="Nightly")
    client.post(f"/keys/{key.public_id}/revoke")

    answer = client.post(f"/keys/{key.public_id}/rotate", follow=True)

    assert "This key is revoked: make a new one" in answer.text
    assert ApiKey.objects.count() == 1


def test_it_revokes_a_key_at_once(client: Client, user: User) -> None:
    key, token = create_key(user, name="Nightly")

    answer = client.post(f"/keys/{key.public_id}/revoke", follow=True)

    assert authenticate_key(token, None) is None
    assert "“Nightly” is revoked" in answer.text
    assert f"rotate-{key.public_id}" not in answer.text


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_it_touches_no_foreign_key_and_says_nothing_of_it(client: Client, verb: str) -> None:
    key, token = create_key(somebody(), name="Theirs")

    foreign, unknown = (client.post(f"/keys/{name}/{verb}") for name in (key.public_id, "0123456789"))

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert authenticate_key(token, None) is not None
    assert "Theirs" not in client.get("/keys").text


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_it_changes_nothing_by_a_mere_look(client: Client, user: User, verb: str) -> None:
    key, _ = create_key(user, name="Nightly")

    assert client.get(f"/keys/{key.public_id}/{verb}").status_code == 405


def test_it_pages(client: Client, user: User) -> None:
    keys = [create_key(user, name=f"Key {place}")[0] for place in range(PAGE + 2)]

    first = client.get("/keys")
    second = client.get("/keys", {"after": first.context["more"]})

    assert [key.pk for key in first.context["keys"]] == [key.pk for key in keys[:1:-1]]
    assert [key.pk for key in second.context["keys"]] == [key.pk for key in keys[1::-1]]
    assert not second.context["more"]


def test_it_shows_names_as_text(client: Client, user: User) -> None:
    create_key(user, name="<script>alert(1)</script>")

    assert "<script>alert" not in client.get("/keys").text
