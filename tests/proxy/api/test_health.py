"""`/health`: a word for strangers, everything for an administrator's key, the truth for both."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.api import health
from portal.api.lean import Doors
from portal.services import keys
from proxy.services import health as proxy_health
from tests.api_client import Client
from tests.portal.people import somebody
from tests.proxy.accounts import account

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _in_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"


def health_for(*scopes: str) -> dict[str, Any]:
    key = keys.create_key(somebody(admin=True), name="test", scopes=scopes)[1] if scopes else None
    feature = health.Feature(proxy_health.is_well, proxy_health.details)
    answer = Client(Doors(health.routes(feature)), key).get("/health")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def test_strangers_learn_nothing_of_accounts() -> None:
    account("secret name", remaining_pro=187)

    for body in (health_for(), health_for("chat")):
        assert set(body) == {"status", "version", "mode", "upstream"}


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([], "ok"),
        (["active"], "ok"),
        (["expired", "active"], "ok"),
        (["expired", "blocked"], "ok"),
        (["expired"], "degraded"),
        (["expired", "expired"], "degraded"),
    ],
)
def test_it_is_not_well_with_nothing_but_dead_sessions(states: list[str], status: str) -> None:
    for number, state in enumerate(states):
        account(str(number), health=state)

    assert health_for()["status"] == status


def test_an_administrator_sees_the_seed_s_members() -> None:
    now = timezone.now()
    account("one", health="active", remaining_pro=7, remaining_research=2, quota_at=now, quota_way="direct")
    account("two", health="expired", remaining_pro=3, health_reason="over", priority=5)

    body = health_for("admin")

    assert body["configured_session"] == {"status": "active", "source": "admin", "message": "over"}
    assert (body["remaining_pro"], body["remaining_research"]) == (10, 2)
    assert body["cookie_age_hours"] == 0.0
    assert body["rate_limit_age_seconds"] in (0, 1)
    assert body["flaresolverr"]["status"] == "unknown"
    assert [(one["name"], one["health"]) for one in body["accounts"]] == [
        ("one", "active"),
        ("two", "expired"),
    ]


@pytest.mark.parametrize(
    ("fields", "session"),
    [
        (None, {"status": "missing", "source": None, "message": None}),
        ({"health": "unchecked"}, {"status": "unchecked", "source": "admin", "message": None}),
        (
            {"health": "expired", "health_reason": "signed out", "imported_digest": "d"},
            {"status": "invalid", "source": "env", "message": "signed out"},
        ),
        (
            {"jar": "", "imported_digest": "d", "import_problem": "refused"},
            {"status": "invalid", "source": None, "message": "refused"},
        ),
    ],
    ids=["missing", "unchecked", "expired", "refused"],
)
def test_it_says_how_the_session_is(fields: dict[str, Any] | None, session: dict[str, Any]) -> None:
    if fields is not None:
        account(**fields)

    assert health_for("admin")["configured_session"] == session


def test_it_says_how_flaresolverr_is() -> None:
    mine = account(quota_way="solver")
    assert health_for("admin")["flaresolverr"]["status"] == "ok"

    mine.quota_problem = "FlareSolverr gave no answer: unreachable."
    mine.save()
    assert health_for("admin")["flaresolverr"]["last_error"] == mine.quota_problem
    assert health_for("admin")["flaresolverr"]["status"] == "unavailable"
