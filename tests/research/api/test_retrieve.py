from __future__ import annotations

import pytest

from tests.research.api.callers import Caller, caller, end

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("/v1/agent", "/v1/responses")


@pytest.fixture
def who() -> Caller:
    return caller()


@pytest.mark.parametrize("path", PATHS)
def test_it_opens_at_both_doors_whichever_made_it(who: Caller, path: str) -> None:
    run = who.start()
    response = who.client.get(f"{path}/{run}")
    assert (response.status_code, response.json()["id"], response.json()["status"]) == (200, run, "queued")
    assert response.headers["retry-after"].isdigit()


def test_it_delivers_the_report(who: Caller) -> None:
    run = who.start()
    end(run, credits_charged=20_000)
    response = who.client.get(f"/v1/responses/{run}")
    shown = response.json()
    assert (shown["status"], shown["output_text"]) == ("completed", "It scatters [1].")
    assert shown["completed_at"] - shown["created_at"] == 5
    assert shown["usage"]["pocket_search"]["duration_ms"] == 5000
    assert shown["output"][0]["results"][0]["url"] == "https://a.org"
    assert (shown["sonde"]["backend"], shown["sonde"]["upstream_cost"]) == ("agent", "0.0123000000")
    assert "retry-after" not in response.headers


def test_it_keeps_every_key_in_its_place_while_a_run_goes_on(who: Caller) -> None:
    run = who.start()
    before = who.client.get(f"/v1/agent/{run}").json()
    end(run)
    after = who.client.get(f"/v1/agent/{run}").json()
    assert list(before) == list(after)
    assert (before["id"], before["created_at"]) == (after["id"], after["created_at"])


@pytest.mark.parametrize("path", PATHS)
def test_it_answers_malformed_ids_like_unknown_ones(who: Caller, path: str) -> None:
    unknown = who.client.get("/v1/agent/resp_" + "1" * 32)
    assert unknown.status_code == 404
    assert unknown.json()["error"] == {
        "code": "not_found",
        "message": "No response with this id exists.",
        "type": "invalid_request_error",
        "param": "response_id",
    }
    for run in ("resp_1", "resp_" + "A" * 32, "x", "resp_%00", "%F0%9F%92%A9", "x" * 5000):
        response = who.client.get(f"{path}/{run}")
        assert (response.status_code, response.content) == (404, unknown.content), run


def test_it_forgets_deleted_runs(who: Caller) -> None:
    run = who.start()
    ended = end(run)
    ended.hidden_at = ended.completed_at
    ended.save(update_fields=["hidden_at"])
    assert who.client.get(f"/v1/agent/{run}").status_code == 404


def test_it_answers_head(who: Caller) -> None:
    response = who.client.request("HEAD", f"/v1/agent/{who.start()}")
    assert (response.status_code, response.content) == (200, b"")
