"""The asynchronous Sonar API, both path families (perplexity-api §3, SPEC 4.3)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from portal.doors import doors
from portal.models.keys import Scope
from portal.services import ledger
from research.api.sonar import routes
from research.api.starting import LARGEST_REQUEST
from research.models.presets import Preset
from research.models.runs import Run
from tests.api_client import Client
from tests.research.api.callers import Caller, caller, end, run_of

pytestmark = pytest.mark.django_db(transaction=True)
FAMILIES = ("/v1/async/sonar", "/async/chat/completions")
UNKNOWN = "resp_" + "0" * 32


@pytest.fixture
def who() -> Caller:
    return caller()


def body(question: str = "Why is the sky blue?", key: str | None = None, **request: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {
        "request": {"model": "sonar-deep-research", "messages": messages, **request},
        "idempotency_key": key,
    }


def submit(who: Caller, *arguments: Any, **more: Any) -> httpx.Response:
    return who.client.post(FAMILIES[0], json=body(*arguments, **more))


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Status, type and param, of the gateway's shape."""
    error = response.json()["error"]
    assert set(error) <= {"message", "type", "code", "param"}
    assert error["code"] == response.status_code
    assert response.headers["x-request-id"]
    return response.status_code, error["type"], error.get("param")


@pytest.mark.parametrize("family", FAMILIES)
def test_it_creates_and_fetches_a_job(who: Caller, family: str) -> None:
    created = who.client.post(family, json=body(reasoning_effort="low"))
    job = created.json()
    assert (created.status_code, job["status"], job["response"]) == (200, "CREATED", None)
    assert created.headers["retry-after"].isdigit()
    run = run_of(job["id"])
    assert (run.preset, run.price, run.time_budget, run.door) == ("5m", 1, 1800, "rest")
    assert who.client.get(f"{family}/{job['id']}").json() == job


def test_it_delivers_the_report_of_a_job(who: Caller) -> None:
    job = submit(who).json()["id"]
    end(job)
    done = who.client.get(f"/v1/async/sonar/{job}")
    assert "retry-after" not in done.headers
    shown = done.json()
    assert shown["status"] == "COMPLETED"
    assert shown["response"]["choices"][0]["message"]["content"] == "It scatters [1]."
    assert shown["response"]["citations"] == ["https://a.org"]
    assert shown["response"]["usage"]["cost"]["total_cost"] == 0.0123


def test_it_opens_the_runs_of_other_doors_and_its_own_at_theirs(who: Caller) -> None:
    theirs, mine = who.start(), submit(who).json()["id"]
    assert who.client.get(f"/v1/async/sonar/{theirs}").json()["id"] == theirs
    assert who.client.get(f"/v1/responses/{mine}").json()["status"] == "queued"


def test_it_starts_once_per_idempotency_key(who: Caller) -> None:
    first, again = submit(who, key="k"), submit(who, key="k")
    assert first.json()["id"] == again.json()["id"]
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert ledger.balance_of(who.user.pk).reserved == 1
    other = submit(who, "How?", key="k")
    assert error_of(other) == (422, "idempotency_key_reused", "idempotency_key")
    assert Run.objects.count() == 1


@pytest.mark.parametrize(("effort", "preset", "status"), [("high", "30m", 200), ("low", "5m", 422)])
def test_it_shares_a_key_with_other_doors_where_they_ask_for_the_same(
    who: Caller, effort: str, preset: str, status: int
) -> None:
    """A job of little effort has more time than the run of that preset: another request."""
    job = submit(who, key="k", reasoning_effort=effort).json()["id"]
    body = {"input": "Why is the sky blue?", "preset": preset, "idempotency_key": "k"}
    again = who.client.post("/v1/agent", json=body)
    assert again.status_code == status
    assert (again.json().get("id") == job) is (status == 200)


def test_it_makes_a_job_that_cannot_be_paid_fail() -> None:
    poor = caller(credits=0)
    created = submit(poor).json()
    assert created["status"] == "CREATED"
    failed = poor.client.get(f"/v1/async/sonar/{created['id']}").json()
    assert (failed["status"], failed["error_message"]) == ("FAILED", "credit quota exhausted")
    assert failed["failed_at"]


def test_it_tells_a_job_that_was_stopped(who: Caller) -> None:
    job = submit(who).json()["id"]
    assert who.client.post(f"/v1/responses/{job}/cancel").status_code == 200
    assert who.client.get(f"/v1/async/sonar/{job}").json()["status"] == "FAILED"


def test_it_lists_what_was_not_honoured(who: Caller) -> None:
    assert submit(who, temperature=0.2).json()["sonde"]["ignored"] == ["request.temperature"]


@pytest.mark.parametrize("family", FAMILIES)
def test_it_lists_newest_first_page_by_page(who: Caller, family: str) -> None:
    jobs = [submit(who, f"Question {n}?").json()["id"] for n in range(3)][::-1]
    submit(caller())
    first = who.client.get(f"{family}?limit=2").json()
    assert [job["id"] for job in first["requests"]] == jobs[:2]
    assert "response" not in first["requests"][0]
    last = who.client.get(family, params={"limit": 2, "next_token": first["next_token"]}).json()
    assert [job["id"] for job in last["requests"]] == jobs[2:]
    assert last["next_token"] is None


def test_it_lists_nothing_of_nobody(who: Caller) -> None:
    assert who.client.get("/v1/async/sonar").json() == {"requests": [], "next_token": None}


@pytest.mark.parametrize("kind", ["malformed", "unknown", "foreign"])
def test_it_refuses_a_token_that_names_no_run_of_the_caller(who: Caller, kind: str) -> None:
    token = {"malformed": "x", "unknown": UNKNOWN, "foreign": caller().start()}[kind]
    response = who.client.get(f"/v1/async/sonar?next_token={token}")
    assert error_of(response) == (400, "invalid_request", "next_token")
    assert response.content == who.client.get("/v1/async/sonar?next_token=y").content


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"model": "sonar"}, "request.model"),
        ({"search_mode": "news"}, "request.search_mode"),
        ({"messages": []}, "request.messages"),
    ],
)
def test_it_names_what_is_wrong_and_charges_nothing(
    who: Caller, request_: dict[str, Any], param: str
) -> None:
    status, _, found = error_of(who.client.post("/v1/async/sonar", json=body(**request_)))
    assert (status, found) == (400, param)
    assert not Run.objects.exists()


def test_it_names_the_effort_whose_preset_is_switched_off(who: Caller) -> None:
    Preset.objects.filter(name="2m").update(enabled=False)
    response = submit(who, reasoning_effort="minimal")
    assert error_of(response) == (400, "invalid_request", "request.reasoning_effort")


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("GET", "/async/nothing", "not_found", 404),
        ("GET", "/v1/async/sonar/resp_1/more", "not_found", 404),
        ("DELETE", "/v1/async/sonar", "method_not_allowed", 405),
        ("POST", f"/v1/async/sonar/{UNKNOWN}", "method_not_allowed", 405),
    ],
)
def test_it_refuses_other_paths_and_methods_in_the_same_shape(
    who: Caller, method: str, path: str, kind: str, status: int
) -> None:
    assert error_of(who.client.request(method, path))[:2] == (status, kind)


def test_it_answers_strangers_byte_for_byte_as_for_unknown_ids(who: Caller) -> None:
    stranger, job = caller(), submit(who).json()["id"]
    for family in FAMILIES:
        theirs = stranger.client.get(f"{family}/{job}")
        assert theirs.content == stranger.client.get(f"{family}/{UNKNOWN}").content
        assert error_of(theirs)[:2] == (404, "not_found")


def test_it_wants_a_key_with_the_scope_at_every_route(who: Caller) -> None:
    chatter = caller(scopes=[Scope.CHAT])
    for route in routes:
        path = route.path.replace("{id}", UNKNOWN)
        assert error_of(Client(doors).request(route.method, path))[:2] == (401, "invalid_api_key")
        assert error_of(chatter.client.request(route.method, path))[:2] == (403, "forbidden")


def test_it_says_when_to_come_back_to_whom_it_limits() -> None:
    hasty = caller(requests_per_minute=1)
    for _ in range(3):  # a minute may turn in between
        response = hasty.client.get("/v1/async/sonar")
    assert error_of(response)[:2] == (429, "request_rate_limit_exceeded")
    assert 1 <= int(response.headers["retry-after"]) <= 60


def test_it_refuses_a_body_that_is_too_large(who: Caller) -> None:
    response = who.client.post("/v1/async/sonar", content=b" " * (LARGEST_REQUEST + 1))
    assert error_of(response)[:2] == (413, "payload_too_large")
