from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from portal.doors import doors
from portal.services import ledger
from portal.services.ledger_check import check
from research.models.presets import Preset
from research.models.runs import Run
from research.services import together
from tests.api_client import HOST
from tests.research.api.callers import Caller, caller, end, run_of

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/v1/agent", "/v1/responses")
QUESTION = {"input": "State of solid state battery manufacturing, 2026", "preset": "high"}


@pytest.fixture
def who() -> Caller:
    return caller()


@pytest.mark.parametrize("path", PATHS)
def test_it_answers_queued_with_everything_committed(who: Caller, path: str) -> None:
    response = who.client.post(path, json=QUESTION)
    assert response.status_code == 200
    shown = response.json()
    assert (shown["status"], shown["output"], shown["usage"]) == ("queued", [], None)
    run = run_of(shown["id"])
    assert (run.user_id, run.key_id, run.door, run.preset) == (who.user.pk, who.key.pk, "rest", "30m")
    assert ledger.balance_of(who.user.pk).reserved == 2
    assert response.headers["retry-after"].isdigit()


def test_it_gives_the_run_every_option(who: Caller) -> None:
    run = run_of(
        who.start(
            "Why?", instructions="Be brief.", search_domain_filter=["a.org"], metadata={"a": "b"}, user="me"
        )
    )
    assert (run.options["instructions"], run.options["domains"]) == ("Be brief.", ["a.org"])
    assert (run.metadata, run.ignored) == ({"a": "b"}, ["user"])


def test_it_makes_a_run_that_cannot_be_paid_fail_instead_of_the_request() -> None:
    poor = caller(credits=1)
    started = poor.client.post("/v1/agent", json=QUESTION).json()
    assert (started["status"], started["error"], started["usage"]) == ("queued", None, None)
    shown = poor.client.get(f"/v1/agent/{started['id']}").json()
    assert shown["status"] == "failed"
    assert shown["error"] == {"code": "insufficient_quota", "message": "credit quota exhausted"}
    assert shown["usage"]["pocket_search"]["credits_charged"] == 0
    assert ledger.balance_of(poor.user.pk).available == 1


@pytest.mark.parametrize("carrier", ["body", "header"])
def test_it_starts_once_per_idempotency_key(who: Caller, carrier: str) -> None:
    more: dict[str, Any] = {"headers": {"Idempotency-Key": "k"}} if carrier == "header" else {}
    body = QUESTION if carrier == "header" else {**QUESTION, "idempotency_key": "k"}
    first, again = (
        who.client.post("/v1/agent", json=body, **more),
        who.client.post("/v1/responses", json=body, **more),
    )
    assert first.json()["id"] == again.json()["id"]
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert ledger.balance_of(who.user.pk).reserved == 2


def test_it_replays_the_run_as_it_is_now(who: Caller) -> None:
    run = who.start(idempotency_key="k")
    end(run)
    again = who.client.post("/v1/agent", json={"input": "Why is the sky blue?", "idempotency_key": "k"})
    assert (again.json()["id"], again.json()["status"]) == (run, "completed")
    assert "retry-after" not in again.headers


def test_it_refuses_a_used_key_for_another_question(who: Caller) -> None:
    who.start(idempotency_key="k")
    response = who.client.post("/v1/agent", json={"input": "How?", "idempotency_key": "k"})
    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("idempotency_key_reused", "idempotency_key")
    assert (error["type"], Run.objects.count()) == ("invalid_request_error", 1)


def test_it_finds_the_run_of_a_request_that_an_sdk_resends(who: Caller) -> None:
    first = who.client.post("/v1/responses", json=QUESTION, headers={"x-stainless-retry-count": "0"}).json()
    again = who.client.post("/v1/responses", json=QUESTION, headers={"x-stainless-retry-count": "1"})
    assert (again.json()["id"], again.headers["idempotent-replayed"]) == (first["id"], "true")
    other = who.client.post("/v1/responses", json=QUESTION, headers={"x-stainless-retry-count": "0"}).json()
    assert other["id"] != first["id"]


@pytest.mark.parametrize("model", ["sonar-deep-research", "deep-research", "default"])
def test_it_takes_research_models_at_the_default_preset(who: Caller, model: str) -> None:
    shown = who.client.post("/v1/responses", json={"input": "Why?", "model": model}).json()
    assert run_of(shown["id"]).preset == "30m"


def test_it_tells_research_from_chat_by_the_field(who: Caller) -> None:
    shown = who.client.post("/v1/responses", json={"input": "Why?", "preset": "deep-research"}).json()
    assert run_of(shown["id"]).preset == "10m"


def test_it_leaves_every_other_model_to_chat(who: Caller) -> None:
    response = who.client.post("/v1/responses", json={"input": "Hello", "model": "no-such-model"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert not Run.objects.exists()


def test_it_takes_any_model_on_the_agent_path(who: Caller) -> None:
    shown = who.client.post("/v1/agent", json={"input": "Hello", "model": "gpt-5"}).json()
    assert (shown["model"], shown["sonde"]["ignored"]) == ("default", ["model"])


def test_it_names_the_presets_there_are(who: Caller) -> None:
    Preset.objects.filter(name="60m").update(enabled=False)
    error = who.client.post("/v1/agent", json={"input": "Why?", "preset": "60m"}).json()["error"]
    assert (error["param"], error["code"]) == ("preset", None)
    assert "2m, 5m, 10m, 30m" in error["message"]


@pytest.mark.parametrize("name", ["preset", "effort"])
def test_it_names_an_unknown_preset_as_the_caller_did(who: Caller, name: str) -> None:
    error = who.client.post("/v1/agent", json={"input": "Why?", name: "35m"}).json()["error"]
    assert error["param"] == name


def test_it_follows_up_an_earlier_run(who: Caller) -> None:
    first = who.start()
    end(first)
    shown = who.client.post("/v1/agent", json={"input": "And at dusk?", "previous_response_id": first}).json()
    assert shown["previous_response_id"] == first


def test_it_knows_no_difference_between_malformed_unknown_and_foreign_earlier_runs(who: Caller) -> None:
    theirs = caller().start()
    end(theirs)
    answers = {
        who.client.post("/v1/agent", json={"input": "And?", "previous_response_id": earlier}).content
        for earlier in ("resp_nonsense", "resp_" + "0" * 32, theirs)
    }
    assert len(answers) == 1
    assert json.loads(answers.pop())["error"]["param"] == "previous_response_id"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The body is empty: send a JSON object."),
        (b"[]", "The body must be a JSON object."),
        (b'"text"', "The body must be a JSON object."),
        (b"{", None),
        (b'{"input": "a", "input": "b"}', "The body names input more than once."),
    ],
)
def test_it_refuses_what_is_no_json_object(
    who: Caller, path: str, content: bytes, message: str | None
) -> None:
    response = who.client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert message in (None, response.json()["error"]["message"])


def test_it_takes_json_without_a_content_type(who: Caller) -> None:
    assert who.client.post("/v1/agent", content=b'{"input": "Why?"}').status_code == 200


def test_it_refuses_what_curl_sends_without_a_header(who: Caller) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert who.client.post("/v1/agent", content=b'{"input": "Why?"}', headers=form).status_code == 415


def test_it_writes_the_space_that_the_seed_s_loop_greps_for(who: Caller) -> None:
    assert b'"status": "queued"' in who.client.post("/v1/agent", json=QUESTION).content


def ids_of_all(who: Caller, bodies: list[dict[str, Any]]) -> list[str]:
    """What so many callers get who come at once, over every door of a start in turn."""

    async def come() -> list[str]:
        transport, headers = httpx.ASGITransport(doors), who.client.headers
        async with httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers) as client:
            places = enumerate(bodies)
            answers = await asyncio.gather(
                *(client.post(PATHS[place % 2], json=body, timeout=60) for place, body in places)
            )
        return [answer.json()["id"] for answer in answers]

    return asyncio.run(come())


def test_it_starts_one_run_for_twenty_who_come_at_once_with_one_key(who: Caller) -> None:
    ids = ids_of_all(who, [{**QUESTION, "idempotency_key": "k"}] * 20)
    assert len(set(ids)) == Run.objects.count() == 1
    assert ledger.balance_of(who.user.pk).reserved == 2


def test_it_admits_one_of_twenty_who_come_at_once_with_credits_for_one() -> None:
    poor = caller(credits=2)
    ids = ids_of_all(poor, [{**QUESTION, "idempotency_key": f"k{place}"} for place in range(20)])
    assert len(set(ids)) == 20
    ends = Counter(Run.objects.values_list("state", "error_code"))
    assert ends == {("queued", ""): 1, ("failed", "insufficient_quota"): 19}
    assert ledger.balance_of(poor.user.pk).available == 0
    assert check() == []


def test_a_long_question_is_started_alone(who: Caller) -> None:
    with patch.object(together._groups, "submit", side_effect=AssertionError("a round")):
        run = run_of(who.start("Why? " * 15_000))
    assert run.state == "queued"
