"""What a page says when something breaks beneath it."""

from __future__ import annotations

import json

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client

from portal.pages import keys
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def breaks_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(keys, "render", broken)


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_no_mistake_of_ours(
    client: Client, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_with(kind("the database system is shutting down"), monkeypatch)

    answer = client.get("/keys")

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    page = answer.content.decode()
    assert "does not answer at the moment" in page
    assert "shutting down" not in page


def test_any_other_failure_is_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks_with(RuntimeError("a secret"), monkeypatch)

    answer = client.get("/keys")

    assert answer.status_code == 500
    assert "Something broke on our side" in answer.content.decode()
    assert "a secret" not in answer.content.decode()


def test_a_script_gets_it_as_an_error_that_it_reads(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OperationalError("the database is locked")

    monkeypatch.setattr("django.contrib.sessions.middleware.SessionMiddleware.process_request", broken)

    answer = client.get("/api/account")

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert json.loads(answer.content)["error"]["message"] == "The service is busy: try again in a moment."
