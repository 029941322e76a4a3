from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from pytest_django import Settings

from portal.api import health
from portal.api.lean import Doors
from portal.models.system import Heartbeat
from portal.wire.version import VERSION
from tests.api_client import Client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> Client:
    """Doors of its own: readiness remembers its last look."""
    return Client(Doors(health.routes()))


def beat(age: timedelta = timedelta()) -> None:
    Heartbeat.objects.update_or_create(name="sweeper", defaults={"at": timezone.now() - age})


def checks(client: Client) -> dict[str, str]:
    response = client.get("/health/ready")
    body = response.json()
    assert (response.status_code == 200) is (body["status"] == "ready")
    assert response.status_code in (200, 503)
    found: dict[str, str] = body["checks"]
    return found


def test_it_tells_strangers_what_it_is_and_no_more(client: Client, settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"
    assert client.get("/health").json() == {
        "status": "ok",
        "version": VERSION,
        "mode": settings.SONDE_MODE,
        "upstream": "sandbox",
    }


@pytest.mark.parametrize(("key", "upstream"), [("pplx-key", "live"), ("", "none")])
def test_it_tells_whether_it_has_an_upstream(
    client: Client, settings: Settings, key: str, upstream: str
) -> None:
    settings.SONDE_UPSTREAM, settings.PERPLEXITY_API_KEY = "live", key
    assert client.get("/health").json()["upstream"] == upstream


def test_it_is_ready_when_everything_is(client: Client) -> None:
    beat()
    assert checks(client) == dict.fromkeys(("database", "migrations", "broker", "sweeper", "disk"), "ok")


def test_it_notices_a_silent_sweeper(client: Client) -> None:
    assert "silent" in checks(client)["sweeper"]


def test_it_notices_a_sweeper_that_fell_silent(client: Client) -> None:
    beat(timedelta(seconds=11))
    assert "silent" in checks(client)["sweeper"]


@pytest.fixture
def one_migration_less() -> Iterator[None]:
    """The newest of research, on which no other stands."""
    newest = "(SELECT max(id) FROM django_migrations WHERE app = 'research')"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, name FROM django_migrations WHERE id = {newest}")
        row, name = cursor.fetchone()
        cursor.execute("UPDATE django_migrations SET name = 'x' WHERE id = %s", [row])
    yield
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET name = %s WHERE id = %s", [name, row])


@pytest.mark.usefixtures("one_migration_less")
def test_it_notices_pending_migrations(client: Client) -> None:
    assert checks(client)["migrations"] == "migrations are pending"


def test_it_notices_a_broker_that_does_not_answer(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://:planted-secret@127.0.0.1:1/0"
    response = client.get("/health/ready")
    assert response.json()["checks"]["broker"] == "the broker does not answer"
    assert "planted-secret" not in response.text


def test_it_notices_a_full_disk(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LEAST_DISK", 2**80)
    assert checks(client)["disk"] == "the disk is nearly full"


def test_it_answers_although_the_database_is_away(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def away(*_: object) -> None:
        raise OperationalError("host db.internal with planted-secret")

    with connection.execute_wrapper(away):
        found = health.look()
    assert found["database"] == found["migrations"] == found["sweeper"] == "failed"
    assert "planted-secret" not in json.dumps(found) + caplog.text


def test_it_looks_once_a_second_however_often_it_is_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOK_EVERY", 60.0)
    beat()
    assert checks(client)["sweeper"] == "ok"
    Heartbeat.objects.all().delete()
    assert checks(client)["sweeper"] == "ok"


def test_it_lives_without_touching_anything(client: Client, settings: Settings) -> None:
    settings.DATA_DIR = "/nowhere"
    with connection.execute_wrapper(lambda *_: pytest.fail("it asked the database")):
        assert client.get("/health/live").json() == {"status": "ok"}
