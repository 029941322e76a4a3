"""Runs as streams, by ids of runs that have ended: what goes on is for the running server (tests/sdk)."""

from __future__ import annotations

import json

import pytest

from portal.wire.sse import SseDecoder, SseRecord
from tests.research.api.callers import Caller, caller, end

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/v1/agent", "/v1/responses")
QUESTION = {"input": "Why is the sky blue?", "preset": "2m", "stream": True}


@pytest.fixture
def who() -> Caller:
    return caller()


def records(body: bytes) -> list[SseRecord]:
    return SseDecoder().feed(body)


@pytest.mark.parametrize("path", PATHS)
def test_it_streams_a_run_from_its_beginning_or_after_any_event(who: Caller, path: str) -> None:
    run = who.start()
    end(run)
    whole = who.client.get(f"{path}/{run}?stream=true")
    assert whole.status_code == 200
    assert whole.headers["content-type"] == "text/event-stream"
    assert whole.headers["cache-control"] == "no-cache"
    assert whole.headers["x-request-id"]
    told = records(whole.content)
    assert [told[0].event, told[-1].event] == ["response.created", "response.completed"]
    assert records(who.client.get(f"{path}/{run}?stream=true&starting_after=1").content) == told[2:]


def test_it_starts_a_run_that_it_streams_at_once() -> None:
    """Without credits a run ends as it begins, so no worker is needed for its end."""
    poor = caller(credits=0)
    told = records(poor.client.post("/v1/responses", json=QUESTION).content)
    assert [record.event for record in told] == ["response.created", "response.queued", "response.failed"]
    failed = json.loads(told[-1].data)["response"]
    assert failed["error"]["code"] == "insufficient_quota"
    again = poor.client.get(f"/v1/responses/{failed['id']}?stream=true")
    assert records(again.content) == told


def test_it_streams_the_same_run_for_the_same_idempotency_key() -> None:
    poor = caller(credits=0)
    body = QUESTION | {"idempotency_key": "once"}
    first, second = (poor.client.post("/v1/agent", json=body) for _ in range(2))
    assert first.content == second.content
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


def test_it_answers_who_asks_for_headers_without_a_stream(who: Caller) -> None:
    run = who.start()
    response = who.client.request("HEAD", f"/v1/responses/{run}?stream=true")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "param"),
    [("stream=yes", "stream"), ("stream=true&starting_after=-1", "starting_after")],
)
@pytest.mark.parametrize("path", PATHS)
def test_it_names_what_is_wrong_with_the_wish_for_a_stream(
    who: Caller, path: str, query: str, param: str
) -> None:
    response = who.client.get(f"{path}/{who.start()}?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize("path", PATHS)
def test_it_streams_nothing_of_others(who: Caller, path: str) -> None:
    run = who.start()
    end(run)
    foreign = caller().client.get(f"{path}/{run}?stream=true&starting_after=0")
    unknown = caller().client.get(f"{path}/resp_{'0' * 32}?stream=true&starting_after=0")
    assert foreign.status_code == 404
    assert foreign.content == unknown.content


def test_it_refuses_a_bad_wish_before_a_run_is_made(who: Caller) -> None:
    response = who.client.post("/v1/agent", json=QUESTION | {"stream": "yes"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "stream"
    assert who.client.get("/v1/agent").json()["data"] == []
