"""The seed's loop, unmodified, by both Python SDKs against a running portal (agent-api §8)."""

from __future__ import annotations

from typing import Any

import openai
import perplexity
import pytest
from perplexity.generated.api import SearchResultsOutputItemOutput

from tests.running_server import RunningServer
from tests.sdk.conftest import Poll, new_key

pytestmark = pytest.mark.slow
QUESTION = "Solid state battery manufacturing, 2026"


def dump(response: Any) -> dict[str, Any]:
    """All that came over the wire. OpenAI's types know no search results and would warn of them."""
    dumped: dict[str, Any] = response.model_dump(warnings=False)
    return dumped


def check_report(response: Any) -> None:
    assert response.status == "completed"
    assert response.id.startswith("resp_")
    assert response.model == "default"
    assert len(response.output_text.split()) > 500
    raw = dump(response)
    assert raw["output_text"] == response.output_text
    results, message = raw["output"]
    assert [result["id"] for result in results["results"]] == list(range(1, len(results["results"]) + 1))
    assert len(results["results"]) == 8
    text = message["content"][0]["text"]
    for citation in message["content"][0]["annotations"]:
        assert 0 <= citation["start_index"] < citation["end_index"] <= len(text)
        assert citation["url"] in {result["url"] for result in results["results"]}
    search = raw["usage"]["pocket_search"]
    assert (search["mode"], search["credits_charged"], search["credits_refunded"]) == ("30m", 2, 0)
    assert search["duration_ms"] == (raw["completed_at"] - raw["created_at"]) * 1000
    assert search["research_receipt"]["version"] == 1
    assert search["steps"] > 0
    assert raw["sonde"]["sandbox"] is True
    assert raw["sonde"]["backend"] == "agent"


def test_it_runs_the_seed_s_loop_by_the_openai_sdk(by_openai: openai.OpenAI, poll: Poll) -> None:
    created = by_openai.responses.create(model="zai/glm-5.1", input=QUESTION, extra_body={"preset": "high"})
    assert (created.status, created.output, created.output_text) == ("queued", [], "")
    assert (created._request_id or "").startswith("req_")
    done = poll(by_openai, created.id)
    check_report(done)
    assert done.created_at == created.created_at
    assert dump(done)["sonde"]["ignored"] == ["model"]


def test_it_runs_the_seed_s_loop_by_the_perplexity_sdk(
    by_perplexity: perplexity.Perplexity, poll: Poll
) -> None:
    created: Any = by_perplexity.responses.create(model="zai/glm-5.1", input=QUESTION, preset="high")
    assert (created.status, created.output, created.output_text) == ("queued", [], "")
    done = poll(by_perplexity, created.id)
    check_report(done)
    results = done.output[0]
    assert isinstance(results, SearchResultsOutputItemOutput)
    assert results.results[0].url.startswith("https://")


def test_it_passes_the_perplexity_sdk_s_strict_validation(server: RunningServer, poll: Poll) -> None:
    with perplexity.Perplexity(
        api_key=server.api_key, base_url=server.url, _strict_response_validation=True
    ) as strict:
        created: Any = strict.responses.create(input=QUESTION, effort="high")
        assert poll(strict, created.id).status == "completed"
        again: Any = strict.responses.create(input=f"{QUESTION} [sandbox:stuck]", preset="2m")
        assert strict.responses.cancel(again.id).status == "cancelling"
        assert poll(strict, again.id).status == "cancelled"


def test_it_passes_the_openai_sdk_s_strict_validation_until_there_are_search_results(
    server: RunningServer, by_openai: openai.OpenAI
) -> None:
    with openai.OpenAI(
        api_key=server.api_key, base_url=f"{server.url}/v1", _strict_response_validation=True
    ) as strict:
        created = strict.responses.create(model="default", input=f"{QUESTION} [sandbox:stuck]")
        assert strict.responses.retrieve(created.id).status in ("queued", "in_progress")
    by_openai.responses.cancel(created.id)


def start(client: Any, question: str) -> Any:
    return client.responses.create(input=question, extra_body={"preset": "2m"})


def test_it_tells_a_run_that_cannot_be_paid(server: RunningServer, poll: Poll) -> None:
    key = new_key(server, credits=0)
    with openai.OpenAI(api_key=key, base_url=f"{server.url}/v1") as client:
        created = start(client, "Why?")
        assert created.status == "queued"
        failed = poll(client, created.id)
    assert failed.status == "failed"
    assert (failed.error.code, failed.error.message) == ("insufficient_quota", "credit quota exhausted")


def test_it_continues_an_earlier_run(by_openai: openai.OpenAI, poll: Poll) -> None:
    first = poll(by_openai, start(by_openai, "Why is the sky blue?").id)
    again = by_openai.responses.create(
        model="default", input="And at dusk?", previous_response_id=first.id, extra_body={"preset": "2m"}
    )
    done = poll(by_openai, again.id)
    assert (done.status, done.previous_response_id) == ("completed", first.id)


def test_it_streams_a_run_to_the_perplexity_sdk(by_perplexity: perplexity.Perplexity) -> None:
    events: list[Any] = list(by_perplexity.responses.create(input=QUESTION, preset="2m", stream=True))
    done = events[-1].response
    rest = list(by_perplexity.responses.retrieve(done.id, stream=True, starting_after=4))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == dump(done)["output_text"] == by_perplexity.responses.retrieve(done.id).output_text
    assert [event.type for event in rest] == [event.type for event in events[5:]]
