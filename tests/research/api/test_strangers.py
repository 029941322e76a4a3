"""Keys, scopes, limits; and that what is not yours does not exist (SPEC 2.5)."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from django.utils import timezone

from portal.doors import doors
from portal.models.keys import ApiKey
from portal.services import keys
from research.api import doors as research
from research.api import front
from tests.api_client import Client
from tests.research.api.callers import Caller, caller, end

pytestmark = pytest.mark.django_db(transaction=True)
UNKNOWN = "resp_" + "0" * 32
EVERY = [(route.method, route.path) for route in (*research.routes, *front.routes)]
OF_ONE_RUN = [(method, path) for method, path in EVERY if "{id}" in path]


@pytest.fixture
def who() -> Caller:
    return caller()


def call(client: Client, method: str, path: str, run: str = UNKNOWN) -> httpx.Response:
    body = {"json": {"input": "Why?", "preset": "2m"}} if method == "POST" and "{id}" not in path else {}
    return client.request(method, path.replace("{id}", run), **body)


def test_it_looks_at_every_route() -> None:
    assert len(EVERY) == 11
    assert len(OF_ONE_RUN) == 6


def shown(response: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """Everything but the name of the request."""
    headers = [item for item in response.headers.multi_items() if item[0] != "x-request-id"]
    return response.status_code, headers, response.content


@pytest.mark.parametrize("ended", [False, True])
def test_it_answers_strangers_byte_for_byte_as_for_unknown_ids(who: Caller, ended: bool) -> None:
    run, stranger = who.start(), caller()
    if ended:
        end(run)
    for method, path in OF_ONE_RUN:
        theirs = shown(call(stranger.client, method, path, run))
        assert theirs == shown(call(stranger.client, method, path)), path
        assert theirs[0] == 404


@pytest.mark.parametrize("key", [None, "", "wrong", "sonde_aaaaaaaaaa_" + "b" * 43, "é", "x" * 4000])
def test_it_wants_a_key_at_every_door(key: str | None) -> None:
    client = Client(doors)
    if key is not None:
        client.headers = {"Authorization": f"Bearer {key}".encode()}  # type: ignore[dict-item]  # raw, as on a wire
    for method, path in EVERY:
        response = call(client, method, path)
        assert response.status_code == 401, path
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == 'Bearer realm="sonde"'


def test_it_wants_the_scope_at_every_door() -> None:
    client = caller(scopes=["files", "mcp"]).client
    for method, path in EVERY:
        response = call(client, method, path)
        assert response.status_code == 403, path
        assert response.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize("header", ["Authorization", "x-api-key"])
def test_it_takes_the_key_bare_and_in_its_other_header(who: Caller, header: str) -> None:
    text = who.client.headers["Authorization"].removeprefix("Bearer ")
    assert Client(doors).get("/v1/agent", headers={header: text}).status_code == 200


def test_it_stops_revoked_expired_and_disabled_callers_at_once(who: Caller) -> None:
    assert who.client.get("/v1/agent").status_code == 200
    expired, disabled = caller(), caller()
    ApiKey.objects.filter(pk=expired.key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    disabled.user.is_active = False
    disabled.user.save()
    keys.revoke_key(who.key)
    assert [one.client.get("/v1/agent").status_code for one in (who, expired, disabled)] == [401, 401, 403]


def test_it_counts_requests_per_minute_and_says_when_to_come_back() -> None:
    who = caller(requests_per_minute=2)
    answers = [who.client.get("/v1/agent") for _ in range(3)]
    if len({answer.headers["x-ratelimit-reset-requests"] for answer in answers}) > 1:
        answers = [who.client.get("/v1/agent") for _ in range(3)]  # the minute had just turned
    assert [answer.status_code for answer in answers][-1] == 429
    last = answers[-1]
    assert last.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(last.headers["retry-after"]) <= 60
    assert last.headers["x-ratelimit-limit-requests"] == "2"
    assert last.headers["x-ratelimit-remaining-requests"] == "0"


def test_it_tells_limits_on_good_and_bad_answers() -> None:
    who = caller(requests_per_minute=100)
    for path, status in (("/v1/agent", 200), ("/v1/agent/x", 404), ("/v1/agent?limit=0", 400)):
        response = who.client.get(path)
        assert response.status_code == status
        assert response.headers["x-ratelimit-limit-requests"] == "100"


def test_it_never_shows_a_key_in_an_answer(who: Caller) -> None:
    secret = who.client.headers["Authorization"].rpartition("_")[2]
    run = who.start(metadata={"a": "b"})
    for response in (
        who.client.get(f"/v1/agent/{run}"),
        who.client.get("/v1/agent"),
        who.client.get("/v1/x"),
    ):
        assert secret not in response.text + str(response.headers)
