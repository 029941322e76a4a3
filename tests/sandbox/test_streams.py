"""The Agent API's event stream on a real socket: order, numbers, resuming, and its faults."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

from tests.sandbox.visitor import agent_text

QUESTION = "How do tides work?"
ENDS = {"response.completed", "response.failed", "response.incomplete", "response.cancelled"}


def ask(question: str, **more: Any) -> dict[str, Any]:
    return {"input": question, "preset": "medium", "stream": True, **more}


def read(text: str) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")
    ]


def stream(client: httpx.Client, question: str, **more: Any) -> list[dict[str, Any]]:
    return read(client.post("/v1/agent", json=ask(question, **more)).text)


def broken_stream(client: httpx.Client, question: str, error: type[Exception]) -> list[dict[str, Any]]:
    """The events that came before the stream failed with the given error."""
    received: list[str] = []

    def take() -> None:
        with client.stream("POST", "/v1/agent", json=ask(question), timeout=0.7) as answer:
            for piece in answer.iter_text():
                received.append(piece)  # extend would lose what came before the error

    with pytest.raises(error):
        take()
    return read("".join(received))


def test_it_streams_numbered_events_from_created_to_completed(client: httpx.Client) -> None:
    events = stream(client, QUESTION)
    kinds = [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds[:3] == ["response.created", "response.in_progress", "response.reasoning.started"]
    assert kinds[-1] == "response.completed"
    assert len(ENDS.intersection(kinds)) == 1
    assert kinds.count("response.reasoning.search_results") == 3
    assert kinds.count("response.reasoning.fetch_url_results") == 3


def test_it_streams_the_text_in_pieces_that_add_up(client: httpx.Client) -> None:
    events = stream(client, QUESTION)
    pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    done = next(event for event in events if event["type"] == "response.output_text.done")
    assert len(pieces) > 20
    assert "".join(pieces) == done["text"] == agent_text(events[-1]["response"])


def test_it_sends_events_when_they_are_due(client: httpx.Client) -> None:
    arrivals = []
    with client.stream("POST", "/v1/agent", json=ask("Why? [sandbox:duration=0.6]")) as answer:
        for line in answer.iter_lines():
            if line:
                arrivals.append(time.monotonic())
    assert arrivals[-1] - arrivals[0] == pytest.approx(0.6, abs=0.25)


def test_it_sends_neither_event_lines_nor_done(client: httpx.Client) -> None:
    text = client.post("/v1/agent", json=ask(QUESTION)).text
    assert all(line.startswith("data: {") for line in text.splitlines() if line)


def test_it_sends_event_lines_comments_and_done_when_asked(client: httpx.Client) -> None:
    text = client.post("/v1/agent", json=ask(f"{QUESTION} [sandbox:event-lines]")).text
    assert "event: response.created\ndata: {" in text
    assert ": keep-alive\n" in text
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_it_cuts_the_stream_after_so_many_events_and_can_be_resumed(client: httpx.Client, cut: int) -> None:
    question = f"{QUESTION} [sandbox:cut-stream={cut}]"
    before = broken_stream(client, question, httpx.RemoteProtocolError)
    assert len(before) == cut
    run = client.get("/_sandbox/jobs").json()["jobs"][0]["id"]
    answer = client.get(f"/v1/agent/{run}", params={"stream": "true", "starting_after": cut - 1})
    after = read(answer.text)
    assert after[0]["sequence_number"] == cut
    assert after[-1]["type"] == "response.completed"


def test_it_resumes_a_background_run_from_any_event(client: httpx.Client) -> None:
    run = client.post("/v1/agent", json=ask(QUESTION, stream=False, background=True)).json()["id"]
    whole = read(client.get(f"/v1/agent/{run}?stream=true").text)
    part = read(client.get(f"/v1/agent/{run}?stream=true&starting_after=7").text)
    assert [event["sequence_number"] for event in part] == [event["sequence_number"] for event in whole[8:]]


def test_it_falls_silent_after_so_many_events(client: httpx.Client) -> None:
    assert len(broken_stream(client, f"{QUESTION} [sandbox:idle-stream=4]", httpx.ReadTimeout)) == 4


def test_it_ends_with_a_bare_error_event(client: httpx.Client) -> None:
    events = stream(client, f"{QUESTION} [sandbox:error-stream=6]")
    assert len(events) == 7
    assert events[-1]["type"] == "error"


def test_it_refuses_to_resume_when_the_window_has_passed(client: httpx.Client) -> None:
    body = ask(f"{QUESTION} [sandbox:no-resume]", stream=False, background=True)
    run = client.post("/v1/agent", json=body).json()["id"]
    assert client.get(f"/v1/agent/{run}?stream=true&starting_after=1").status_code == 400
    assert client.get(f"/v1/agent/{run}").status_code == 200


@pytest.mark.parametrize(
    ("marker", "end"),
    [
        ("failed", "response.failed"),
        ("incomplete", "response.incomplete"),
        ("incomplete-empty", "response.incomplete"),
        ("upstream-cancelled", "response.cancelled"),
    ],
)
def test_it_ends_the_stream_as_the_run_ends(client: httpx.Client, marker: str, end: str) -> None:
    events = stream(client, f"{QUESTION} [sandbox:{marker}]")
    assert [event["type"] for event in events if event["type"] in ENDS] == [end]
    assert events[-1]["type"] == end


def test_it_ends_the_stream_of_a_cancelled_run(client: httpx.Client) -> None:
    def cancel() -> None:
        time.sleep(0.3)
        run = httpx.get(f"{client.base_url}/_sandbox/jobs", trust_env=False).json()["jobs"][0]["id"]
        httpx.post(f"{client.base_url}/v1/agent/{run}/cancel", headers=client.headers, trust_env=False)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    events = stream(client, f"{QUESTION} [sandbox:duration=5]")
    canceller.join()
    assert events[-1]["type"] == "response.cancelled"
    assert events[-1]["response"]["status"] == "cancelled"


def test_it_cuts_a_synchronous_sonar_stream_too(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": f"{QUESTION} [sandbox:cut-stream=3]"}]
    body = {"model": "sonar", "messages": messages, "stream": True}
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/chat/completions", json=body)


def test_it_can_leave_out_the_last_line_of_a_sonar_stream(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": f"{QUESTION} [sandbox:no-done]"}]
    text = client.post(
        "/chat/completions", json={"model": "sonar", "messages": messages, "stream": True}
    ).text
    assert "[DONE]" not in text
