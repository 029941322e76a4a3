from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import Client as Django
from pytest_django import Settings

from portal.asgi import application
from tests.api_client import Client

pytestmark = pytest.mark.django_db(transaction=True)
client = Client(application)


@pytest.mark.parametrize("path", ["/api/nope", "/v1/nope", "/nowhere"])
def test_it_names_each_request_on_both_sides_of_the_house(path: str) -> None:
    response = client.get(path, headers={"x-request-id": "mine"})
    assert (response.status_code, response.headers.get_list("x-request-id")) == (404, ["mine"])


HOSTILE = {"host": "evil.example"}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/account/login/", {}, 200),
        ("/", {}, 302),
        ("/nowhere", {}, 404),
        ("/static/nowhere.css", {}, 404),
        ("/static/sonde.css", {}, 200),
        ("/account/login/", HOSTILE, 400),
        ("/api/account", HOSTILE, 400),
        ("/nowhere?" + "&".join(f"a{n}" for n in range(1500)), {}, 404),
        ("/account/login/?" + "&".join(f"a{n}" for n in range(1500)), {}, 400),
        ("/admin/", {}, 302),
        ("/api/account", {}, 401),
    ],
)
def test_it_lets_no_answer_out_without_a_policy(path: str, headers: dict[str, str], status: int) -> None:
    response = Django(headers=headers).get(path)
    response.close()

    assert response.status_code == status
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-request-id"]
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    ["/", "/runs", "/nowhere", "/account/password/change/", "/account/signup/", "/api/account", "/admin/"],
)
def test_it_keeps_what_one_person_sees_out_of_every_cache(path: str) -> None:
    assert "no-store" in client.get(path).headers["cache-control"]


def test_it_lets_assets_be_kept() -> None:
    response = Django().get("/static/sonde.css")
    response.close()

    assert "no-store" not in response.headers["cache-control"]


def test_it_guards_whom_it_sends_to_the_safe_address(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True

    response = Django().get("/", headers=HOSTILE)

    assert response.status_code == 400
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def test_it_answers_a_preflight_without_a_view() -> None:
    headers = {"origin": "https://lab.example", "access-control-request-method": "GET"}
    assert client.request("OPTIONS", "/api/account", headers=headers).status_code == 204


async def test_it_survives_a_request_for_no_path_at_all() -> None:
    """`OPTIONS *` is legal HTTP; uvicorn hands it over with this path."""
    sent: list[Any] = []
    messages = [{"type": "http.request"}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "OPTIONS", "path": "*", "query_string": b"", "headers": headers}
    await application(scope, receive, send)
    assert sent[0]["status"] == 404
