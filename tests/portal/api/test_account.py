from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client
from pytest_django import Settings

from portal.models.teams import Membership
from portal.models.users import User
from portal.services import keys, ledger
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db
PATH = "/api/account"


def with_key(user: User, **of_key: object) -> dict[str, str]:
    _, text = keys.create_key(user, name="test", **of_key)  # type: ignore[arg-type]
    return {"Authorization": f"Bearer {text}"}


def test_it_tells_a_key_who_it_is_and_what_it_can_spend(client: Client) -> None:
    user = somebody(credits="10.5")
    ledger.reserve(user.pk, "run:x", Decimal(2))
    response = client.get(PATH, headers=with_key(user, scopes=["chat"]))
    assert response.status_code == 200
    assert response.json() == {
        "email": user.email,
        "team": user.membership.team.name,
        "credits": {"balance": 8.5, "reserved": 2},
    }
    assert b'"reserved":2}' in response.content


def test_it_tells_a_session_the_same(client: Client) -> None:
    user = somebody(credits=3)
    client.force_login(user)
    assert client.get(PATH).json()["credits"] == {"balance": 3, "reserved": 0}


def test_it_knows_people_without_a_team(client: Client) -> None:
    user = somebody()
    Membership.objects.all().delete()
    assert client.get(PATH, headers=with_key(user)).json()["team"] is None


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}])
def test_it_wants_to_know_who_asks(client: Client, headers: dict[str, str]) -> None:
    response = client.get(PATH, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == 'Bearer realm="sonde"'


def test_it_refuses_disabled_people(client: Client) -> None:
    user = somebody()
    headers = with_key(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    response = client.get(PATH, headers=headers)
    assert (response.status_code, response.json()["error"]["type"]) == (403, "permission_error")


@pytest.mark.parametrize(
    "accept", ["application/json", "text/event-stream", "application/binary", "*/*", "x"]
)
def test_it_answers_json_whatever_is_accepted(client: Client, accept: str) -> None:
    response = client.get(PATH, headers={**with_key(somebody()), "accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


def test_it_names_its_method(client: Client) -> None:
    response = client.post(PATH, headers=with_key(somebody()))
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/api/account/", "/api", "/api/", "/api/nope", "/api/account/1"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_it_is_at_no_other_path(client: Client, path: str, method: str) -> None:
    response = getattr(client, method)(path, headers=with_key(somebody()))
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


def test_it_counts_against_the_limit_of_the_key(client: Client) -> None:
    headers = with_key(somebody(), requests_per_minute=0)
    response = client.get(PATH, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert response.headers["x-ratelimit-limit-requests"] == "0"
    assert response.headers["retry-after"]
    shown = client.get(PATH, headers=with_key(somebody(), requests_per_minute=5)).headers
    assert shown["x-ratelimit-limit-requests"] == "5"


def test_it_names_each_request(client: Client) -> None:
    assert client.get(PATH, headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert client.get("/nowhere").headers["x-request-id"].startswith("req_")


def test_it_opens_to_configured_origins_and_to_keys_only(client: Client, settings: Settings) -> None:
    settings.CORS_ORIGINS = ("https://lab.example",)
    origin = {"origin": "https://lab.example"}
    before = client.options(PATH, headers={**origin, "access-control-request-method": "GET"})
    assert before.status_code == 204
    assert before.headers["access-control-allow-headers"] == "Authorization, *"
    after = client.get(PATH, headers={**with_key(somebody()), **origin})
    assert after.headers["access-control-allow-origin"] == "https://lab.example"
    assert "Origin" in after.headers["vary"]
    assert "access-control-allow-credentials" not in after.headers
    page = client.get("/nowhere", headers=origin)
    assert "access-control-allow-origin" not in page.headers


def test_it_never_caches(client: Client) -> None:
    assert client.get(PATH, headers=with_key(somebody())).headers["cache-control"] == "no-store"
