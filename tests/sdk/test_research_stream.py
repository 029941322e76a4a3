"""Research that is looked on as it goes, by the real SDK over a socket, in both modes (SPEC 4.2)."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import openai
import perplexity
import pytest

from portal.wire.sse import SseDecoder
from tests.proxy.protocol.response_events import check_stream
from tests.running_server import RunningServer
from tests.sdk.conftest import new_key
from tests.services import free_port

pytestmark = pytest.mark.slow
QUESTION = "Solid state battery manufacturing, 2026"
LONGER = f"{QUESTION} [sandbox:duration=3]"
RESEARCH: Any = {"extra_body": {"preset": "2m"}}


def client_of(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(api_key=server.api_key, base_url=f"{server.url}/v1", max_retries=0)


def body_of(server: RunningServer, run: str, after: int | None = None) -> bytes:
    """The bytes of a run's stream; of all of it, or of what follows an event."""
    query = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.get(f"{server.url}/v1/responses/{run}", params=query, headers=headers, timeout=60).content


def texts(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def test_it_streams_a_run_to_a_raw_loop(server: RunningServer, by_openai: openai.OpenAI) -> None:
    events: list[Any] = list(by_openai.responses.create(input=LONGER, stream=True, **RESEARCH))

    last = events[-1]
    assert [events[0].type, last.type] == ["response.created", "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    [thoughts, _] = last.response.output
    assert "Searching: " in thoughts.summary[0].text
    kept = by_openai.responses.retrieve(last.response.id)
    assert texts(events) == last.response.output_text == kept.output_text
    assert len(kept.output_text.split()) > 500


def test_it_streams_the_same_bytes_to_everybody_and_again(
    server: RunningServer, by_openai: openai.OpenAI
) -> None:
    with by_openai.responses.with_streaming_response.create(
        input=QUESTION, stream=True, **RESEARCH
    ) as response:
        first = b"".join(response.iter_bytes())
    payloads = check_stream(first)
    run = payloads[0]["response"]["id"]

    assert body_of(server, run) == body_of(server, run) == first
    assert SseDecoder().feed(body_of(server, run, 7)) == SseDecoder().feed(first)[8:]


def test_it_serves_the_streaming_helper(by_openai: openai.OpenAI) -> None:
    with by_openai.responses.stream(model="deep-research", input=QUESTION, **RESEARCH) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()

    assert {"response.reasoning_summary_text.delta", "response.output_text.annotation.added"} <= kinds
    assert final.output_text
    with by_openai.responses.stream(response_id=final.id, starting_after=20) as again:
        assert next(iter(again)).sequence_number > 20
        assert again.get_final_response().output_text == final.output_text


def test_it_streams_a_run_that_was_started_without(by_openai: openai.OpenAI) -> None:
    queued = by_openai.responses.create(input=QUESTION, **RESEARCH)
    events: list[Any] = list(by_openai.responses.retrieve(queued.id, stream=True))
    rest: list[Any] = list(by_openai.responses.retrieve(queued.id, stream=True, starting_after=3))

    assert events[-1].response.status == "completed"
    assert [event.model_dump() for event in rest] == [event.model_dump() for event in events[4:]]


def test_it_streams_to_the_perplexity_sdk(by_perplexity: perplexity.Perplexity) -> None:
    events: Any = list(by_perplexity.responses.create(input=QUESTION, preset="2m", stream=True))
    rest: Any = list(by_perplexity.responses.retrieve(events[0].response.id, stream=True, starting_after=3))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.status == "completed"
    assert texts(events) == events[-1].response.output_text
    assert [event.sequence_number for event in rest] == list(range(4, len(events)))


@pytest.mark.parametrize(
    ("marker", "last", "status"),
    [
        ("failed", "response.failed", "failed"),
        ("incomplete", "response.incomplete", "incomplete"),
    ],
)
def test_it_ends_a_stream_as_the_run_ends(
    server: RunningServer, by_openai: openai.OpenAI, marker: str, last: str, status: str
) -> None:
    question = f"[sandbox:{marker}] Why?"
    events: list[Any] = list(by_openai.responses.create(input=question, stream=True, **RESEARCH))
    assert (events[-1].type, events[-1].response.status) == (last, status)
    check_stream(body_of(server, events[0].response.id), profile="agent")


def test_it_ends_the_stream_of_a_run_that_is_stopped(server: RunningServer, by_openai: openai.OpenAI) -> None:
    stream = by_openai.responses.create(input="[sandbox:stuck] Why?", stream=True, **RESEARCH)
    seen: list[Any] = list(islice(stream, 3))
    by_openai.responses.cancel(seen[0].response.id)
    seen += list(stream)
    assert (seen[-1].type, seen[-1].response.status) == ("response.incomplete", "cancelled")
    check_stream(body_of(server, seen[0].response.id))


def test_it_goes_on_without_whoever_looked_on(by_openai: openai.OpenAI) -> None:
    with by_openai.responses.create(input=QUESTION, stream=True, **RESEARCH) as stream:
        first: Any = next(iter(stream))
    with by_openai.responses.stream(response_id=first.response.id) as again:
        assert again.get_final_response().status == "completed"


def test_it_streams_the_refusal_of_a_run_that_cannot_be_paid(server: RunningServer) -> None:
    with openai.OpenAI(api_key=new_key(server, credits=0), base_url=f"{server.url}/v1") as poor:
        events: list[Any] = list(poor.responses.create(input="Why?", stream=True, **RESEARCH))
    assert events[-1].response.error.code == "insufficient_quota"


def read_on(stream: Any, seen: list[Any], server: RunningServer) -> None:
    """Read to the end; kill the portal once there is some progress."""
    for event in stream:
        seen.append(event)
        if event.type == "response.reasoning_summary_text.delta" and server.process is not None:
            server.kill()


@pytest.mark.embedded
def test_it_goes_on_where_it_was_when_the_portal_was_killed(tmp_path: Path) -> None:
    """Web and worker die at once, in the midst of the stream, and the report comes whole."""
    with RunningServer(tmp_path, RESEARCH_POLL_SECONDS="0.2") as server:
        seen: list[Any] = []
        with client_of(server) as client:
            stream = client.responses.create(input=LONGER, stream=True, **RESEARCH)
            with pytest.raises((openai.APIConnectionError, httpx.HTTPError)):
                read_on(stream, seen, server)
        assert texts(seen) == ""

        server.start()

        run, number = seen[0].response.id, seen[-1].sequence_number
        with client_of(server) as client:
            seen += list(client.responses.retrieve(run, stream=True, starting_after=number))
            kept = client.responses.retrieve(run)
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert texts(seen) == kept.output_text
        assert kept.status == "completed"
        check_stream(body_of(server, run))
        assert server.manage("ledger_check").returncode == 0


@pytest.mark.cluster
@pytest.mark.parametrize("server", ["cluster"], indirect=True)
def test_it_goes_on_at_another_web_process_when_the_first_is_killed(
    server: RunningServer, tmp_path: Path
) -> None:
    environment: Any = server.environment | {"PORT": str(free_port())}
    with RunningServer(tmp_path, mode="cluster", role="web", **environment) as other:
        seen: list[Any] = []
        with openai.OpenAI(api_key=server.api_key, base_url=f"{other.url}/v1", max_retries=0) as client:
            stream = client.responses.create(input=LONGER, stream=True, **RESEARCH)
            with pytest.raises((openai.APIConnectionError, httpx.HTTPError)):
                read_on(stream, seen, other)
    run, number = seen[0].response.id, seen[-1].sequence_number

    with client_of(server) as client:
        seen += list(client.responses.retrieve(run, stream=True, starting_after=number))
        kept = client.responses.retrieve(run)
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert texts(seen) == kept.output_text
