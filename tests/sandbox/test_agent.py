"""The Agent API on a good day, its quirks, and its strictness."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox.agent import TERMINAL
from sandbox.app import build_app
from sandbox.wire import ConnectionDropped
from tests.sandbox.visitor import HEADERS, Visitor, agent_results, agent_text

KEYS = re.findall(
    r"\w+",
    """id object created_at completed_at status background model output error incomplete_details usage store
    previous_response_id instructions metadata max_output_tokens max_tool_calls parallel_tool_calls
    presence_penalty frequency_penalty prompt_cache_key reasoning safety_identifier service_tier temperature
    text tool_choice tools top_logprobs top_p truncation user""",
)
UNKNOWN = "resp_00000000-0000-4000-8000-000000000000"
QUESTION = "How do tides work?"


async def test_it_answers_a_submission_with_all_32_keys_queued_and_empty(visitor: Visitor) -> None:
    answer = (await visitor.submit_agent(QUESTION)).json()
    assert list(answer) == KEYS
    assert len(KEYS) == 32
    assert answer["status"] == "queued"
    assert answer["output"] == []
    assert answer["usage"] is None


@pytest.mark.parametrize("base", ["/v1/agent", "/v1/responses"])
async def test_it_knows_a_run_under_both_names(visitor: Visitor, base: str) -> None:
    run = await visitor.ask_agent(QUESTION)
    answer = await visitor.client.get(f"{base}/{run}")
    assert answer.json()["id"] == run


async def test_it_shows_progress_that_grows_with_running_ids(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    kinds, numbers = [], []
    for _ in range(9):
        visitor.clock.forward(1)
        response = await visitor.fetch_agent(run)
        assert response["status"] == "in_progress"
        kinds.append([item["type"] for item in response["output"]])
        numbers.append([entry["id"] for entry in agent_results(response)])
    assert kinds[0] == []
    assert kinds[-1] == ["search_results", "fetch_url_results"] * 3
    assert numbers[2] == [1, 2, 3]
    assert numbers[-1] == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_it_moves_created_at_with_every_fetch_and_ends_both_times_equal(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(3)
    before = await visitor.fetch_agent(run)
    visitor.clock.forward(8)
    after = await visitor.fetch_agent(run)
    assert after["created_at"] == before["created_at"] + 8
    assert before["completed_at"] is None
    assert after["completed_at"] == after["created_at"]


async def test_it_calls_the_model_by_the_preset_until_completed(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION, preset="high")
    visitor.clock.forward(5)
    assert (await visitor.fetch_agent(run))["model"] == "high"
    visitor.clock.forward(6)
    assert (await visitor.fetch_agent(run))["model"] == "openai/gpt-6-luna"


async def test_it_counts_usage_only_when_completed_and_sparsely(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(5)
    assert (await visitor.fetch_agent(run))["usage"] is None
    visitor.clock.forward(6)
    usage = (await visitor.fetch_agent(run))["usage"]
    assert usage["tool_calls_details"] == {"search_web": {"invocation": 8}, "fetch_url": {"invocation": 3}}
    assert set(usage["cost"]) == {
        "currency",
        "input_cost",
        "output_cost",
        "tool_calls_cost",
        "total_cost",
    }


async def test_it_leaves_annotations_empty_and_items_without_ids(visitor: Visitor) -> None:
    response = await visitor.run_agent(QUESTION)
    parts = [p for item in response["output"] if item["type"] == "message" for p in item["content"]]
    assert [part["annotations"] for part in parts] == [[]]
    assert all("id" not in item for item in response["output"] if item["type"] != "message")


async def test_it_stamps_the_request_id_of_the_run_and_four_rate_headers(visitor: Visitor) -> None:
    answer = await visitor.submit_agent(QUESTION)
    assert "resp_" + answer.headers["x-request-id"] == answer.json()["id"]
    numbers = [answer.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "used")]
    assert numbers == ["50", "49", "1"]
    assert int(answer.headers["x-ratelimit-reset"]) > visitor.clock.now


async def test_it_hides_an_unstored_run_and_another_accounts(visitor: Visitor) -> None:
    hidden = await visitor.ask_agent(QUESTION, store=False)
    mine = await visitor.ask_agent(QUESTION)
    stranger = {"authorization": "Bearer pplx-stranger"}
    answers = [
        await visitor.client.get(f"/v1/agent/{hidden}"),
        await visitor.client.get(f"/v1/agent/{UNKNOWN}"),
        await visitor.client.get(f"/v1/agent/{mine}", headers=stranger),
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert {answer.json()["error"]["message"] for answer in answers} == {"resource not found"}


async def test_it_takes_a_key_with_another_tail_for_the_same_account(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    rotated = {"authorization": HEADERS["authorization"] + ".second"}
    answer = await visitor.client.get(f"/v1/agent/{run}", headers=rotated)
    assert answer.status_code == 200


@pytest.mark.parametrize("bad", ["resp_", "msg_1", "resp_a%20b", "resp_" + "x" * 101])
async def test_it_refuses_a_malformed_id(visitor: Visitor, bad: str) -> None:
    for answer in (
        await visitor.client.get(f"/v1/agent/{bad}"),
        await visitor.client.post(f"/v1/agent/{bad}/cancel"),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "invalid response id"


# Cancelling.


async def test_it_accepts_a_cancel_then_shows_two_more_fetches_in_progress(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(5)
    before = await visitor.fetch_agent(run)
    answer = await visitor.client.post(f"/v1/agent/{run}/cancel")
    assert answer.json() == {"response_id": run, "status": "cancelling"}
    states = [await visitor.fetch_agent(run) for _ in range(3)]
    assert [state["status"] for state in states] == ["in_progress", "in_progress", "cancelled"]
    last = states[-1]
    assert last["error"] == {"code": "cancelled", "message": "cancelled", "type": "cancelled"}
    assert last["incomplete_details"] == {"reason": "cancelled"}
    assert last["output"] == before["output"] != []
    assert last["usage"] is None


async def test_it_stays_cancelled_when_the_time_of_completion_passes(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(9)
    await visitor.client.post(f"/v1/agent/{run}/cancel", json={})
    visitor.clock.forward(60)
    states = [(await visitor.fetch_agent(run))["status"] for _ in range(4)]
    assert states == ["in_progress", "in_progress", "cancelled", "cancelled"]


async def test_it_refuses_to_cancel_a_finished_and_an_unknown_run_in_the_same_words(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    visitor.clock.forward(11)
    for found in (run, UNKNOWN):
        answer = await visitor.client.post(f"/v1/agent/{found}/cancel")
        assert answer.status_code == 400
        assert answer.json()["error"] == {"message": TERMINAL, "type": "invalid_request", "code": 400}


# Strictness.

ACCEPTED: list[dict[str, Any]] = [
    {"preset": "fast-search"},
    {"preset": None, "effort": "fast@2026-10-16.0"},
    {"preset": "nonsense", "effort": "low"},
    {"preset": None, "model": "openai/gpt-6-luna", "max_steps": 101},
    {"preset": None, "models": ["anthropic/claude-sonnet-5"], "max_output_tokens": 1},
    {"preset": None, "profile": {"type": "custom", "id": "p"}},
    {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0, "top_p": 1.0, "store": True},
    {"tools": [{"type": "web_search", "filters": {"search_domain_filter": ["a.org", "-b.org"]}}]},
    {"tools": [{"type": "web_search", "filters": {"search_after_date_filter": "2026-01-01"}}]},
    {"tools": [{"type": "function", "name": "f", "parameters": {"any": {"thing": 1}}}]},
    {"tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search", "max_results": 5}]},
    {"reasoning": {"effort": "high"}, "service_tier": "flex", "prompt_cache_key": "k"},
    {"input": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]},
    {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}]},
]
REFUSED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"colour": 1}, 'invalid request body: json: unknown field "colour"', "colour"),
    (
        {"idempotency_key": "k"},
        'invalid request body: json: unknown field "idempotency_key"',
        "idempotency_key",
    ),
    ({"text": {"format": {"type": "text"}}}, 'invalid request body: json: unknown field "text"', "text"),
    (
        {"reasoning": {"summary": "auto"}},
        'invalid request body: json: unknown field "summary"',
        "summary",
    ),
    (
        {"tools": [{"type": "web_search", "depth": 1}]},
        'invalid request body: json: unknown field "depth"',
        "depth",
    ),
    (
        {"tools": [{"type": "web_search", "filters": {"domains": []}}]},
        'invalid request body: json: unknown field "domains"',
        "domains",
    ),
    (
        {"input": [{"role": "user", "content": "q", "mood": "good"}]},
        'invalid request body: json: unknown field "mood"',
        "mood",
    ),
    ({"input": ""}, "validation failed: input cannot be empty", "input"),
    ({"input": []}, "validation failed: input cannot be empty", "input"),
    ({"max_steps": 0}, "validation failed: max steps must be at least 1", "max_steps"),
    (
        {"tools": [{"type": "web_search", "filters": {"search_recency_filter": "decade"}}]},
        "validation failed: tools[0]: search recency filter must be one of: hour day week month year",
        "tools",
    ),
    (
        {"preset": None, "model": "anthropic/claude-sonnet-5"},
        "validation failed: max_output_tokens is required for anthropic models",
        "max_output_tokens",
    ),
    (
        {"preset": None},
        "validation failed: one of preset, effort, profile, model or models is required",
        "model",
    ),
    (
        {"preset": None, "model": "perplexity/sonar-pro"},
        "validation failed: model perplexity/sonar-pro is not supported",
        "model",
    ),
    ({"previous_response_id": UNKNOWN}, "invalid request", "previous_response_id"),
    (
        {"metadata": {"k": "v" * 513}},
        "validation failed: metadata keys take 64 and values 512 characters",
        "metadata",
    ),
    (
        {"metadata": {str(n): "v" for n in range(17)}},
        "validation failed: metadata has at most 16 keys",
        "metadata",
    ),
    ({"temperature": 2.5}, "validation failed: temperature must be between 0 and 2", "temperature"),
    (
        {"stream": "yes"},
        "invalid request body: json: cannot unmarshal field stream into type bool",
        "stream",
    ),
]


@pytest.mark.parametrize("body", ACCEPTED, ids=str)
async def test_it_accepts_what_the_schema_knows(visitor: Visitor, body: dict[str, Any]) -> None:
    assert (await visitor.submit_agent(QUESTION, **body)).status_code == 200


@pytest.mark.parametrize(("body", "message", "param"), REFUSED, ids=[str(row[0])[:60] for row in REFUSED])
async def test_it_refuses_what_the_schema_does_not_know(
    visitor: Visitor, body: dict[str, Any], message: str, param: str | None
) -> None:
    answer = await visitor.submit_agent(QUESTION, **body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["message"], error.get("param"), error["code"]) == (message, param, 400)


async def test_it_continues_a_completed_run_only(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    assert (await visitor.submit_agent("And then?", previous_response_id=run)).status_code == 400
    visitor.clock.forward(11)
    follow_up = await visitor.submit_agent("And then?", previous_response_id=run)
    assert follow_up.json()["previous_response_id"] == run


async def test_it_makes_two_runs_of_two_equal_submissions(visitor: Visitor) -> None:
    assert await visitor.ask_agent(QUESTION) != await visitor.ask_agent(QUESTION)


async def test_it_searches_nothing_for_a_bare_model(visitor: Visitor) -> None:
    response = await visitor.run_agent(QUESTION, preset=None, model="openai/gpt-6-luna")
    assert agent_results(response) == []
    assert "[1]" not in agent_text(response)


async def test_it_drops_a_presets_other_tools_when_one_is_listed(visitor: Visitor) -> None:
    response = await visitor.run_agent(QUESTION, tools=[{"type": "web_search"}])
    assert {item["type"] for item in response["output"]} == {"search_results", "message"}


async def test_it_has_neither_a_list_nor_a_delete(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    assert (await visitor.client.get("/v1/agent")).status_code == 405
    assert (await visitor.client.delete(f"/v1/agent/{run}")).status_code == 405


async def test_it_lists_no_files_of_a_run(visitor: Visitor) -> None:
    run = await visitor.ask_agent(QUESTION)
    listed = await visitor.client.get(f"/v1/responses/{run}/files")
    assert listed.json() == {"object": "list", "data": []}
    assert (await visitor.client.get(f"/v1/responses/{run}/files/f/content")).status_code == 404


async def test_it_refuses_a_body_of_more_than_32_mib(visitor: Visitor) -> None:
    answer = await visitor.client.post("/v1/agent", content=b" " * (32 * 1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "payload_too_large"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b'{"input":NaN}', b'{"input":"\\ud800"}', b"[" * 100_000, b"\xff"]
)
async def test_it_refuses_a_body_that_is_no_json_object(visitor: Visitor, body: bytes) -> None:
    assert (await visitor.client.post("/v1/agent", content=body)).status_code == 400


def test_it_answers_in_the_foreground_once_the_run_is_over(client: httpx.Client) -> None:
    answer = client.post("/v1/responses", json={"input": QUESTION, "preset": "fast"}).json()
    assert answer["status"] == "completed"
    assert answer["background"] is False
    assert agent_text(answer)


def test_it_answers_in_the_foreground_that_a_run_was_cancelled(client: httpx.Client) -> None:
    body = {"input": "Why? [sandbox:duration=30]", "preset": "fast"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/v1/agent", json=body)
        while not (jobs := client.get("/_sandbox/jobs").json()["jobs"]):
            time.sleep(0.02)
        client.post(f"/v1/agent/{jobs[0]['id']}/cancel")
        assert waiting.result(timeout=5).json()["status"] == "cancelled"


async def test_it_is_cut_at_the_edge_when_the_foreground_takes_too_long(tmp_path: Path) -> None:
    app = build_app(tmp_path / "sandbox.sqlite3", seconds=60, edge_seconds=0.1)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=HEADERS) as client:
        with pytest.raises(ConnectionDropped):
            await client.post("/v1/agent", json={"input": QUESTION, "preset": "fast"})
        run = (await client.get("/_sandbox/jobs")).json()["jobs"][0]["id"]
        assert (await client.get(f"/v1/agent/{run}")).status_code == 200
    app.close()
