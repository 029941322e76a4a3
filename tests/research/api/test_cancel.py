from __future__ import annotations

from typing import Any

import pytest

from portal.services import ledger
from tests.research.api.callers import Caller, caller, end, run_of

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/v1/agent", "/v1/responses")


@pytest.fixture
def who() -> Caller:
    return caller()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": b"{}"},
        {"content": b" "},
        {"json": {}},
        {"headers": {"content-type": "application/json"}},
    ],
)
def test_it_answers_the_agent_door_with_two_members(who: Caller, body: dict[str, Any]) -> None:
    run = who.start()
    response = who.client.post(f"/v1/agent/{run}/cancel", **body)
    assert (response.status_code, response.json()) == (200, {"response_id": run, "status": "cancelling"})
    assert run_of(run).status == "cancelled"
    assert ledger.balance_of(who.user.pk).available == 10


def test_it_answers_the_sdks_with_the_whole_object_and_both_members(who: Caller) -> None:
    run = who.start()
    shown = who.client.post(f"/v1/responses/{run}/cancel").json()
    assert (shown["id"], shown["response_id"], shown["status"]) == (run, run, "cancelling")
    assert (shown["object"], shown["output"]) == ("response", [])


@pytest.mark.parametrize("path", PATHS)
def test_it_refuses_to_cancel_what_has_ended(who: Caller, path: str) -> None:
    run = who.start()
    end(run)
    response = who.client.post(f"{path}/{run}/cancel")
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "the run is already terminal"
    assert run_of(run).status == "completed"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("run", ["resp_" + "0" * 32, "resp_1", "x"])
def test_it_answers_unknown_ids_alike(who: Caller, path: str, run: str) -> None:
    response = who.client.post(f"{path}/{run}/cancel")
    assert response.status_code == 404
    assert response.content == who.client.get("/v1/agent/resp_" + "1" * 32).content


def test_it_refuses_a_body_that_is_no_object(who: Caller) -> None:
    run = who.start()
    for content in (b"[", b"[]"):
        assert who.client.post(f"/v1/agent/{run}/cancel", content=content).status_code == 400
    assert run_of(run).status == "queued"
