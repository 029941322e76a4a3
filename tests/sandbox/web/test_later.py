"""Resume, stop and delete (perplexity-web §15), on a real socket where time matters."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

from tests.sandbox.visitor import Clock
from tests.sandbox.web.listener import (
    ASK,
    Frame,
    WebVisitor,
    blocks,
    body,
    cookie,
    final_text,
    placed,
    records,
)
from tests.sandbox_server import SandboxServer

SESSION = cookie("sandbox-max-later")
TERMINATE = "/rest/sse/perplexity_terminate"
DELETE = "/rest/thread/delete_thread_by_entry_uuid"
QUESTION = "How do tides work?"


def frames_of(text: str) -> list[Frame]:
    return [json.loads(record.data) for record in records(text) if record.event == "message"]


def begin(client: httpx.Client, question: str, frames: int, **params: Any) -> list[Frame]:
    """The first so many frames of an answer; then the client leaves."""
    text = ""
    with client.stream("POST", ASK, json=body(question, **params), headers=SESSION) as answer:
        for piece in answer.iter_text():
            text += piece
            if len(frames_of(text.rpartition("\r\n\r\n")[0])) >= frames:
                break
    return frames_of(text.rpartition("\r\n\r\n")[0])


def resume(client: httpx.Client, entry: str, **more: Any) -> httpx.Response:
    body = {"reconnectInitialSnapshot": True}
    return client.post(f"{ASK}/reconnect/{entry}", json=body, headers={**SESSION, **more})


def stop(client: httpx.Client, entry: str) -> httpx.Response:
    given = {
        "entry_uuid": entry,
        "context_uuid": "x",
        "model_preference": "turbo",
        "terminate_requested_at_ms": 0,
    }
    return client.post(TERMINATE, json=given, headers=SESSION)


@pytest.mark.parametrize(
    "params",
    [{}, {"supported_block_use_cases": ["diff_blocks"]}, {"send_back_text_in_streaming_api": True}],
    ids=str,
)
def test_it_resumes_with_a_snapshot_and_goes_on(client: httpx.Client, params: dict[str, Any]) -> None:
    question = f"{QUESTION} [sandbox:duration=1.5]"
    before = begin(client, question, 8, model_preference="gpt55", **params)
    after = frames_of(resume(client, before[0]["backend_uuid"]).text)
    assert after[0]["status"] == "PENDING"
    assert not any("diff_block" in block for block in after[0]["blocks"])
    sent = placed(before)
    assert placed(after[:1]).startswith(sent) if sent else blocks(after[0], "ask_text")
    assert after[-1]["status"] == "COMPLETED"
    assert len(after) > 4
    whole = client.post(ASK, json=body(QUESTION, model_preference="gpt55"), headers=SESSION).text
    assert final_text(after[-1]) == final_text(frames_of(whole)[-1])
    if "supported_block_use_cases" not in params:
        assert placed(after[:-1]) == final_text(after[-1])


def test_it_goes_on_while_nobody_listens(client: httpx.Client) -> None:
    entry = begin(client, f"{QUESTION} [sandbox:duration=0.4]", 3)[0]["backend_uuid"]
    time.sleep(0.5)
    answer = resume(client, entry)
    frames = frames_of(answer.text)
    assert len(frames) == 1
    assert (frames[0]["status"], frames[0]["reconnectable"]) == ("COMPLETED", False)
    assert final_text(frames[0])
    assert records(answer.text)[-1].event == "end_of_stream"


def test_it_resumes_after_a_cut_as_if_nothing_had_been(client: httpx.Client) -> None:
    question = f"{QUESTION} [sandbox:cut-stream=4] [sandbox:duration=0.3]"
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(ASK, json=body(question), headers=SESSION)
    entry = client.get("/_sandbox/web/entries").json()["entries"][0]["id"]
    assert frames_of(resume(client, entry).text)[-1]["status"] == "COMPLETED"


def test_it_resumes_after_the_death_of_the_process(server: SandboxServer, client: httpx.Client) -> None:
    question = f"{QUESTION} [sandbox:duration=5]"
    entry = begin(client, question, 5, model_preference="pplx_alpha")[0]["backend_uuid"]
    server.kill()
    server.start()
    frames = frames_of(resume(client, entry).text)
    assert frames[0]["status"] == "PENDING"
    assert final_text(frames[-1]).startswith("**A simulated report is ready.**")
    assert server.web_entries()[0]["reconnects"] == 1


def test_it_plays_several_listeners_the_same(client: httpx.Client) -> None:
    entry = begin(client, f"{QUESTION} [sandbox:duration=0.6]", 2)[0]["backend_uuid"]
    texts: list[str] = []

    def listen() -> None:
        with httpx.Client(base_url=client.base_url, trust_env=False) as own:
            texts.append(final_text(frames_of(resume(own, entry).text)[-1]))

    threads = [threading.Thread(target=listen) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 3
    assert len(set(texts)) == 1


async def test_it_has_forgotten_entries_of_others_deleted_ones_and_old_ones(
    web: WebVisitor, clock: Clock
) -> None:
    answer = await web.ask(QUESTION)
    token = answer.last["read_write_token"]

    async def again(visitor: WebVisitor, entry: str) -> httpx.Response:
        return await visitor.send("POST", f"{ASK}/reconnect/{entry}", json={})

    for visitor, entry in (
        (web.as_("sandbox-max-stranger"), answer.entry),
        (web.as_(""), answer.entry),
        (web, "00000000-0000-4000-8000-000000000000"),
    ):
        gone = await again(visitor, entry)
        assert (gone.status_code, gone.json()) == (403, {})
    clock.forward(86399)
    assert (await again(web, answer.entry)).status_code == 200
    clock.forward(1)
    assert (await again(web, answer.entry)).status_code == 403
    young = await web.ask(QUESTION)
    gone = await web.send("DELETE", DELETE, json={"entry_uuid": young.entry, "read_write_token": "wrong"})
    assert gone.status_code == 403
    token = young.last["read_write_token"]
    deleted = await web.send("DELETE", DELETE, json={"entry_uuid": young.entry, "read_write_token": token})
    assert deleted.status_code == 200
    assert (await again(web, young.entry)).status_code == 403


async def test_it_deletes_the_whole_thread(web: WebVisitor) -> None:
    first = await web.ask(QUESTION)
    second = await web.ask("And?", last_backend_uuid=first.entry)
    given = {"entry_uuid": second.entry, "read_write_token": second.last["read_write_token"]}
    assert (await web.send("DELETE", DELETE, json=given)).status_code == 200
    assert (await web.send("POST", f"{ASK}/reconnect/{first.entry}", json={})).status_code == 403
    assert (await web.send("DELETE", DELETE, json=given)).status_code == 403


@pytest.mark.parametrize(
    ("marker", "refused"), [("no-resume", True), ("expire=0", True), ("expire=60", False)]
)
async def test_it_cannot_be_resumed_when_the_marker_says_so(
    web: WebVisitor, marker: str, refused: bool
) -> None:
    entry = (await web.ask(f"{QUESTION} [sandbox:{marker}]")).entry
    answer = await web.send("POST", f"{ASK}/reconnect/{entry}", json={})
    assert (answer.status_code == 403) is refused


async def test_it_resumes_a_refusal_as_a_refusal(web: WebVisitor) -> None:
    for marker, sign in (("upsell", "COMPLETED"), ("failed", "FAILED"), ("error-frame", "boom")):
        entry = (await web.ask(f"{QUESTION} [sandbox:{marker}]")).entry
        assert sign in (await web.send("POST", f"{ASK}/reconnect/{entry}", json={})).text


# Stopping.


def stopped(client: httpx.Client, question: str, after: float) -> tuple[list[Frame], httpx.Response, float]:
    """The frames of an answer that is stopped, the answer to the stop, and how long it all took."""
    answers: list[httpx.Response] = []

    def halt() -> None:
        time.sleep(after)
        with httpx.Client(base_url=client.base_url, trust_env=False) as own:
            entry = own.get("/_sandbox/web/entries").json()["entries"][0]["id"]
            answers.append(stop(own, entry))

    thread = threading.Thread(target=halt)
    thread.start()
    begun = time.monotonic()
    text = client.post(ASK, json=body(question), headers=SESSION).text
    took = time.monotonic() - begun
    thread.join()
    assert records(text)[-1].event == "end_of_stream"
    return frames_of(text), answers[0], took


@pytest.mark.parametrize("marker", ["duration=30", "stuck", "first-frame=30"])
def test_it_stops_at_once(client: httpx.Client, marker: str) -> None:
    frames, answer, took = stopped(client, f"{QUESTION} [sandbox:{marker}]", 0.5)
    assert took < 10
    assert answer.json()["status"] == "completed"
    assert answer.json()["_response_type"] == "COMPLETED_RESPONSE"
    assert (frames[-1]["status"], frames[-1]["text_completed"]) == ("COMPLETED", False)
    assert frames[-1]["final_sse_message"]


def test_it_keeps_what_was_said_when_it_was_stopped(client: httpx.Client) -> None:
    frames, _, _ = stopped(client, f"{QUESTION} [sandbox:duration=2]", 1)
    text = placed(frames)
    assert len(text) > 20
    time.sleep(0.2)
    again = frames_of(resume(client, frames[0]["backend_uuid"]).text)
    assert len(again) == 1
    assert again[0]["text_completed"] is False
    assert placed(again) == text


def test_it_completes_although_the_stop_was_accepted(client: httpx.Client) -> None:
    frames, answer, _ = stopped(client, f"{QUESTION} [sandbox:duration=0.8] [sandbox:cancel-ignored]", 0.3)
    assert answer.status_code == 200
    assert frames[-1]["text_completed"] is True


def test_it_refuses_a_stop_when_the_marker_says_so(client: httpx.Client) -> None:
    frames, answer, _ = stopped(client, f"{QUESTION} [sandbox:duration=0.8] [sandbox:cancel-refused]", 0.3)
    assert (answer.status_code, answer.json()) == (403, {})
    assert frames[-1]["text_completed"] is True


async def test_it_leaves_alone_what_was_over_when_it_was_to_be_stopped(web: WebVisitor) -> None:
    entry = (await web.ask(QUESTION)).entry
    assert (await web.send("POST", TERMINATE, json={"entry_uuid": entry})).status_code == 200
    again = frames_of((await web.send("POST", f"{ASK}/reconnect/{entry}", json={})).text)
    assert again[0]["text_completed"] is True
    assert final_text(again[0])


async def test_it_stops_nothing_of_others(web: WebVisitor) -> None:
    entry = (await web.ask(QUESTION)).entry
    refused: list[Any] = [{"entry_uuid": entry}, {}, []]
    for given in refused:
        answer = await web.as_("sandbox-max-stranger").send("POST", TERMINATE, json=given)
        assert answer.status_code == 403
    assert (await web.control("/web/entries"))["entries"][0]["stopped_at"] is None


@pytest.mark.parametrize(("marker", "path"), [("poll-slow", "reconnect"), ("cancel-slow", "terminate")])
def test_it_can_be_late_with_the_headers_of_later_calls(client: httpx.Client, marker: str, path: str) -> None:
    frames = frames_of(client.post(ASK, json=body(f"? [sandbox:{marker}=0.3]"), headers=SESSION).text)
    entry = frames[0]["backend_uuid"]
    begun = time.monotonic()
    answer = resume(client, entry) if path == "reconnect" else stop(client, entry)
    assert answer.status_code == 200
    assert time.monotonic() - begun >= 0.3
