"""The legacy Sonar API: asynchronous jobs in both path families, the list, and the synchronous call."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.sandbox.visitor import START, Visitor, sonar_body

QUESTION = "How do tides work?"
FAMILIES = ("/v1/async/sonar", "/async/chat/completions")
CHAT = {"model": "sonar-pro", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.mark.parametrize("base", FAMILIES)
async def test_it_creates_a_job_with_nulls_elsewhere(visitor: Visitor, base: str) -> None:
    job = (await visitor.client.post(base, json=sonar_body(QUESTION))).json()
    assert job == {
        "id": job["id"],
        "model": "sonar-deep-research",
        "status": "CREATED",
        "created_at": int(START),
        "started_at": None,
        "completed_at": None,
        "failed_at": None,
        "error_message": None,
        "response": None,
    }


@pytest.mark.parametrize("base", FAMILIES)
async def test_it_carries_a_job_to_its_completion(visitor: Visitor, base: str) -> None:
    job = await visitor.ask_sonar(QUESTION)
    visitor.clock.forward(5)
    working = (await visitor.client.get(f"{base}/{job}")).json()
    assert (working["status"], working["response"]) == ("IN_PROGRESS", None)
    assert working["started_at"] is not None
    visitor.clock.forward(6)
    done = (await visitor.client.get(f"{base}/{job}")).json()
    assert done["status"] == "COMPLETED"
    assert done["completed_at"] == done["created_at"] + 10
    choice = done["response"]["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["delta"] == {"role": "assistant", "content": ""}
    assert len(done["response"]["citations"]) == len(done["response"]["search_results"]) == 8


async def test_it_prices_a_completion_with_all_parts_of_the_cost(visitor: Visitor) -> None:
    usage = (await visitor.run_sonar(QUESTION))["response"]["usage"]
    assert usage["num_search_queries"] == 8
    assert set(usage["cost"]) >= {"input_tokens_cost", "output_tokens_cost", "total_cost", "request_cost"}


async def test_it_gives_one_job_for_one_key_and_body(visitor: Visitor) -> None:
    first = await visitor.ask_sonar(QUESTION, "key-1")
    visitor.clock.forward(20)
    assert await visitor.ask_sonar(QUESTION, "key-1") == first
    assert await visitor.ask_sonar(QUESTION, "key-2") != first
    assert await visitor.ask_sonar(QUESTION) != await visitor.ask_sonar(QUESTION)


async def test_it_refuses_a_key_with_another_body(visitor: Visitor) -> None:
    await visitor.ask_sonar(QUESTION, "key-1")
    answer = await visitor.submit_sonar("Another question?", "key-1")
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "idempotency_key"]


async def test_it_lists_newest_first_in_pages_whose_token_needs_encoding(visitor: Visitor) -> None:
    jobs = [await visitor.ask_sonar(f"Question {number}?") for number in range(5)]
    seen: list[str] = []
    token = ""
    while True:
        page = (await visitor.client.get(f"{FAMILIES[0]}?limit=2&next_token={quote(token, safe='')}")).json()
        seen += [row["id"] for row in page["requests"]]
        if page["next_token"] is None:
            break
        token = page["next_token"]
        assert "+" in token
    assert seen == jobs[::-1]
    assert set(page["requests"][0]) == {
        "id",
        "model",
        "status",
        "created_at",
        "started_at",
        "completed_at",
        "failed_at",
    }


async def test_it_lists_twenty_unless_told_otherwise(visitor: Visitor) -> None:
    for number in range(21):
        await visitor.ask_sonar(f"Question {number}?")
    page = (await visitor.client.get(FAMILIES[1])).json()
    assert len(page["requests"]) == 20


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "next_token=zzz", "next_token=+/8x"])
async def test_it_refuses_a_list_that_makes_no_sense(visitor: Visitor, query: str) -> None:
    assert (await visitor.client.get(f"{FAMILIES[0]}?{query}")).status_code == 400


async def test_it_takes_a_fetch_that_lost_its_id_for_a_list(visitor: Visitor) -> None:
    answer = (await visitor.client.get(FAMILIES[0] + "/")).json()
    assert "status" not in answer
    assert answer["requests"] == []


async def test_it_forgets_a_job_after_seven_days(visitor: Visitor) -> None:
    job = await visitor.ask_sonar(QUESTION)
    visitor.clock.forward(7 * 86400 - 1)
    assert (await visitor.client.get(f"{FAMILIES[0]}/{job}")).status_code == 200
    visitor.clock.forward(2)
    assert (await visitor.client.get(f"{FAMILIES[0]}/{job}")).status_code == 404
    assert (await visitor.client.get(FAMILIES[0])).json()["requests"] == []


INVALID: list[tuple[Any, list[str | int]]] = [
    ({}, ["body", "request"]),
    ({"request": {"messages": []}}, ["body", "request", "model"]),
    ({"request": {"model": "sonar"}}, ["body", "request", "messages"]),
    ({"request": {"model": "sonar", "messages": []}}, ["body", "request", "messages"]),
    ({"request": {"model": "sonar", "messages": "hi"}}, ["body", "request", "messages"]),
    (
        {"request": {"model": "sonar", "messages": [{"role": "developer", "content": ""}]}},
        ["body", "request", "messages", 0, "role"],
    ),
    ({"request": {**CHAT, "reasoning_effort": "max"}}, ["body", "request", "reasoning_effort"]),
    ({"request": {**CHAT, "search_mode": "news"}}, ["body", "request", "search_mode"]),
    ({"request": {**CHAT, "max_tokens": 128001}}, ["body", "request", "max_tokens"]),
    ({"request": {**CHAT, "temperature": "hot"}}, ["body", "request", "temperature"]),
    ({"request": CHAT, "idempotency_key": 1}, ["body", "idempotency_key"]),
    ([], ["body"]),
]


@pytest.mark.parametrize(("body", "location"), INVALID, ids=str)
async def test_it_refuses_a_wrong_shape_with_422(
    visitor: Visitor, body: Any, location: list[str | int]
) -> None:
    answer = await visitor.client.post(FAMILIES[0], json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == location


async def test_it_lets_unknown_fields_pass(visitor: Visitor) -> None:
    assert (await visitor.submit_sonar(QUESTION, colour="blue")).status_code == 200


async def test_it_refuses_an_unknown_model(visitor: Visitor) -> None:
    answer = await visitor.submit_sonar(QUESTION, model="sonar-max")
    assert answer.json()["error"]["type"] == "invalid_model"


async def test_it_finds_nothing_for_a_wrong_recency_filter_and_says_nothing(visitor: Visitor) -> None:
    response = (await visitor.run_sonar(QUESTION, search_recency_filter="<recency>"))["response"]
    assert (response["citations"], response["search_results"]) == ([], [])
    assert response["usage"]["num_search_queries"] == 8


async def test_it_reads_the_question_from_the_parts_of_the_last_user_message(visitor: Visitor) -> None:
    parts = [{"type": "text", "text": "Second? [sandbox:failed]"}]
    messages = [{"role": "user", "content": "First?"}, {"role": "user", "content": parts}]
    job = await visitor.run_sonar("", messages=messages)
    assert job["status"] == "FAILED"


# The synchronous call.


def events(answer: httpx.Response) -> list[Any]:
    """The events of a stream; the mark of its end as a string."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/sonar", "/v1/chat/completions"])
def test_it_completes_a_chat(client: httpx.Client, path: str) -> None:
    answer = client.post(path, json=CHAT).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "sonar-pro"
    assert answer["choices"][0]["message"]["content"].startswith("# Simulated report")


def test_it_streams_increments_and_the_text_so_far_in_full_mode(client: httpx.Client) -> None:
    answer = client.post("/chat/completions", json={**CHAT, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *chunks, last, done = events(answer)
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in [*chunks, last]} == {"chat.completion.chunk"}
    written = "".join(chunk["choices"][0]["delta"]["content"] for chunk in [*chunks, last])
    assert last["choices"][0]["message"]["content"] == written
    assert last["choices"][0]["finish_reason"] == "stop"
    assert {chunk["choices"][0]["finish_reason"] for chunk in chunks} == {None}
    assert "request_cost" in last["usage"]["cost"]
    assert "request_cost" not in chunks[0]["usage"]["cost"]


@pytest.mark.parametrize(("model", "steps"), [("sonar-pro", 3), ("sonar-deep-research", 0)])
def test_it_streams_reasoning_apart_in_concise_mode(client: httpx.Client, model: str, steps: int) -> None:
    answer = client.post(
        "/chat/completions", json={**CHAT, "model": model, "stream": True, "stream_mode": "concise"}
    )
    *chunks, _ = events(answer)
    kinds = [chunk["object"] for chunk in chunks]
    assert kinds.count("chat.reasoning") == steps
    assert kinds[steps] == "chat.reasoning.done"
    assert kinds[-1] == "chat.completion.done"
    assert set(kinds[steps + 1 : -1]) == {"chat.completion.chunk"}
    written = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks[steps + 1 : -1])
    assert chunks[-1]["choices"][0]["message"]["content"] == written


async def test_it_answers_a_synchronous_failure_with_500(visitor: Visitor) -> None:
    body = {**CHAT, "messages": [{"role": "user", "content": "[sandbox:failed]"}]}
    assert (await visitor.client.post("/chat/completions", json=body)).status_code == 500


# Search and models, which outlived Sonar.


async def test_it_searches_in_one_flat_list(visitor: Visitor) -> None:
    answer = await visitor.client.post("/search", json={"query": ["tides", "moons"], "max_results": 12})
    results = answer.json()["results"]
    assert len(results) == 12
    assert set(results[0]) == {"title", "url", "snippet", "date", "last_updated"}


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": []}, {"query": "a", "max_results": 21}])
async def test_it_refuses_a_search_that_makes_no_sense(visitor: Visitor, body: dict[str, Any]) -> None:
    assert (await visitor.client.post("/search", json=body)).status_code == 422


async def test_it_lists_models_without_presets(visitor: Visitor) -> None:
    models = (await visitor.client.get("/v1/models")).json()["data"]
    names = {model["id"] for model in models}
    assert "perplexity/sonar" in names
    assert all("/" in name for name in names)
    assert models[0]["pricing"]["unit"] == "usd_per_1m_tokens"
