"""The check against OpenAI's document sees what does not fit, and lets pass what we say on purpose."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from proxy.protocol.response_object import Head, frame, message_item, text_part
from tests.openapi import document, misfits, misfits_of_event

PATH = "/v1/responses"
Json = dict[str, Any]


def whole(**changes: Any) -> Json:
    said = message_item("msg_1", "completed", [text_part("Yes.")])
    return frame(Head("resp_1", 1, "gpt"), "completed", output=[said], completed_at=2) | changes


def answered(body: Json, *, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=body)


def streamed(*records: str) -> httpx.Response:
    lines = "".join(f"data: {record}\n\n" for record in records)
    return httpx.Response(200, text=lines, headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize(
    "body",
    [
        whole(),
        whole(output=[{"type": "search_results", "results": []}]),
        whole(status="failed", error={"code": "tool_protocol_error", "message": "No."}),
        whole(status="incomplete", incomplete_details={"reason": "time_budget"}),
        whole(status="cancelling", response_id="resp_1"),
    ],
)
def test_it_lets_pass_what_fits_or_is_ours_on_purpose(body: Json) -> None:
    assert misfits("POST", PATH, answered(body)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "done"}, "status"),
        ({"created_at": "now"}, "created_at"),
        ({"output": [message_item("msg_1", "over", [text_part()])]}, "output"),
        ({"output": [message_item("msg_1", "completed", [{"type": "output_text"}])]}, "output"),
        ({"error": {"code": "odd", "message": "No."}}, "error"),
        ({"incomplete_details": {"reason": "tired"}}, "incomplete_details"),
    ],
)
def test_it_names_what_does_not_fit(changes: Json, told: str) -> None:
    [fault, *_] = misfits("POST", PATH, answered(whole(**changes)))

    assert f"Response/{told}" in fault


def test_it_misses_what_is_not_there() -> None:
    body = {name: value for name, value in whole().items() if name != "tools"}

    assert '"tools" is a required property' in misfits("GET", f"{PATH}/resp_1", answered(body))[0]


def test_it_judges_errors_and_streams() -> None:
    delta = '{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,'
    whole_delta = delta + '"delta":"a","logprobs":[],"sequence_number":4}'

    assert misfits("POST", PATH, streamed(whole_delta)) == []
    assert "sequence_number" in misfits("GET", f"{PATH}/resp_1", streamed(delta + '"delta":"a"}'))[0]
    assert "no event" in misfits_of_event({"type": "response.cancelled"})[0]
    assert misfits("POST", PATH, answered({"error": {"message": "No."}}, status=400))
    assert misfits("POST", "/v1/chat/completions", streamed('{"id":"1"}', "[DONE]"))


def test_it_knows_each_of_our_paths_that_openai_has() -> None:
    ours = {"/responses", "/responses/{response_id}", "/chat/completions", "/models/{model}", "/files"}

    assert ours <= document()["paths"].keys()
    assert misfits("GET", "/v1/models/zai/glm", answered({"id": "zai/glm"}))
    assert misfits("GET", "/v1/agent/resp_1", answered({})) == []
