"""Perplexity's own Python SDK against a real socket: the sandbox must not be told from the original."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import perplexity
import pytest
from perplexity import Perplexity

from tests.sandbox_server import SandboxServer

QUESTION = "How do tides work?"
MESSAGES = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def sdk(server: SandboxServer) -> Iterator[Perplexity]:
    with Perplexity(api_key=server.key, base_url=server.url, max_retries=0) as client:
        yield client


def wait(fetch: Callable[[], Any], *ends: str) -> Any:
    """Polls as a script would, for five seconds at most."""
    for _ in range(250):
        found = fetch()
        if found.status in ends:
            return found
        time.sleep(0.02)
    raise AssertionError("it never ended")


def test_it_runs_a_background_response_to_its_end(sdk: Perplexity) -> None:
    started = sdk.responses.create(input=QUESTION, preset="medium", background=True)
    assert started.status == "queued"
    done = wait(lambda: sdk.responses.retrieve(started.id), "completed")
    assert done.output_text.startswith("# Simulated report: How do tides work")
    assert done.usage.cost.total_cost == 0.0165
    results = [item for item in done.output if item.type == "search_results"]
    assert [entry.id for item in results for entry in item.results] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_it_cancels_a_response(sdk: Perplexity) -> None:
    started = sdk.responses.create(input=f"{QUESTION} [sandbox:duration=30]", preset="high", background=True)
    assert sdk.responses.cancel(started.id).status == "cancelling"
    assert wait(lambda: sdk.responses.retrieve(started.id), "cancelled").error.type == "cancelled"
    with pytest.raises(perplexity.BadRequestError):
        sdk.responses.cancel(started.id)


def test_it_streams_a_response(sdk: Perplexity) -> None:
    events = list(sdk.responses.create(input=QUESTION, preset="low", stream=True))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    written = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert written.startswith("# Simulated report")


def test_it_runs_an_asynchronous_chat_to_its_end(sdk: Perplexity) -> None:
    request = {"model": "sonar-deep-research", "messages": MESSAGES}
    job = sdk.async_.chat.completions.create(request=request, idempotency_key="k")
    assert sdk.async_.chat.completions.create(request=request, idempotency_key="k").id == job.id
    done = wait(lambda: sdk.async_.chat.completions.get(job.id), "COMPLETED")
    assert len(done.response.search_results) == 8
    assert done.response.choices[0].message.content.startswith("# Simulated report")
    listed = sdk.async_.chat.completions.list()
    assert [row.id for row in listed.requests] == [job.id]


def test_it_completes_a_chat_plain_and_streamed(sdk: Perplexity) -> None:
    plain = sdk.chat.completions.create(model="sonar", messages=MESSAGES)
    chunks = list(sdk.chat.completions.create(model="sonar", messages=MESSAGES, stream=True))
    assert chunks[-1].choices[0].message.content == plain.choices[0].message.content


def test_it_searches_and_lists_models(sdk: Perplexity) -> None:
    assert sdk.search.create(query="tides").results[0].url.startswith("https://example.")
    assert sdk.models.list().data


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("pplx-bad", perplexity.AuthenticationError),
        ("pplx-org", perplexity.PermissionDeniedError),
        ("pplx-broke", perplexity.APIStatusError),
        ("pplx-busy", perplexity.RateLimitError),
    ],
)
def test_it_turns_keys_away_in_the_sdks_words(
    server: SandboxServer, key: str, error: type[Exception]
) -> None:
    with Perplexity(api_key=key, base_url=server.url, max_retries=0) as client, pytest.raises(error):
        client.responses.create(input=QUESTION, preset="low", background=True)


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        ("sonar.retired", perplexity.PermissionDeniedError),
        ("server-error", perplexity.InternalServerError),
        ("rate-limit", perplexity.RateLimitError),
        ("late-drop", perplexity.APIConnectionError),
        ("not-found", perplexity.NotFoundError),
    ],
)
def test_it_fails_in_the_sdks_words(sdk: Perplexity, marker: str, error: type[Exception]) -> None:
    messages = [{"role": "user", "content": f"Why? [sandbox:{marker}]"}]
    with pytest.raises(error):
        sdk.async_.chat.completions.create(request={"model": "sonar-deep-research", "messages": messages})


def test_it_is_sent_a_create_three_times_by_an_sdk_that_retries(server: SandboxServer) -> None:
    question = f"{QUESTION} [sandbox:late-server-error=2]"
    with Perplexity(api_key=server.key, base_url=server.url) as client:
        client.responses.create(input=question, preset="low", background=True)
    assert server.counts().agent_submissions(question) == 3
    assert server.counts().agent_jobs(question) == 3
