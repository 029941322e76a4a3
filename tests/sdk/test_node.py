"""Both Node SDKs against a running portal: every end of a run, every error, chat and Sonar (agent-api §8).

Each SDK's script plays all of its scenarios at once (tests/node); here is what must have come of them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import FileObject
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from perplexity.types.async_.chat.completion_get_response import CompletionGetResponse
from perplexity.types.async_.chat.completion_list_response import CompletionListResponse
from perplexity.types.stream_chunk import StreamChunk
from pydantic import TypeAdapter

from portal.wire.conformance.checks import Profile
from portal.wire.sse import encode_event
from tests.proxy.protocol.response_events import check_stream
from tests.sdk.node import SDKS, Results, played

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
both = pytest.mark.parametrize("sdk", SDKS)
by_openai = pytest.mark.parametrize("sdk", ["openai"])
STREAMS = ("streamCompleted", "streamFailed", "streamIncomplete", "streamCancelled")
by_perplexity = pytest.mark.parametrize("sdk", ["perplexity"])


class Scenarios:
    def __init__(self, results: Results) -> None:
        self.results = results

    def __getitem__(self, name: str) -> Any:
        result = self.results[name]
        assert "crash" not in result, result["crash"]
        return result["value"]


@pytest.fixture(scope="session")
def every() -> dict[str, Results]:
    return played()


@pytest.fixture
def of(every: dict[str, Results], sdk: str) -> Scenarios:
    """What became of each scenario of `sdk`."""
    return Scenarios(every[sdk])


def error_of(caught: dict[str, Any]) -> dict[str, Any]:
    """openai unwraps the envelope, Perplexity's SDK shows the whole body."""
    body: dict[str, Any] = caught["body"]
    found: dict[str, Any] = body.get("error", body)
    return found


@both
def test_it_delivers_a_report(of: Scenarios) -> None:
    created, done = of["completed"]["created"], of["completed"]["done"]
    assert (created["status"], created["output_text"]) == ("queued", "")
    assert (done["status"], done["id"], done["created_at"]) == (
        "completed",
        created["id"],
        created["created_at"],
    )
    results, message = done["output"]
    assert done["output_text"] == message["content"][0]["text"]
    assert len(done["output_text"].split()) > 500
    assert len(results["results"]) == 8


@both
def test_it_tells_a_failed_run(of: Scenarios) -> None:
    done = of["failed"]["done"]
    assert (done["status"], done["output"], done["error"]["code"]) == ("failed", [], None)
    assert done["error"]["message"]


@both
def test_it_tells_an_incomplete_run(of: Scenarios) -> None:
    done = of["incomplete"]["done"]
    assert (done["status"], done["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert done["output_text"]


@both
def test_it_stops_a_run(of: Scenarios) -> None:
    run = of["cancelled"]
    assert (run["stopping"]["response_id"], run["stopping"]["status"]) == (run["created"]["id"], "cancelling")
    assert run["done"]["status"] == "cancelled"


def checked(events: list[dict[str, Any]], profile: Profile) -> list[dict[str, Any]]:
    """The events of a stream as the SDK gave them, once every rule of openai-compat §6 holds."""
    records = (encode_event(json.dumps(event), event["type"]) for event in events)
    return check_stream(b"".join(records), profile=profile)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


@both
@pytest.mark.parametrize("scenario", STREAMS)
def test_it_streams_a_run_to_each_of_its_ends(of: Scenarios, scenario: str) -> None:
    events, final = checked(of[scenario]["events"], "agent"), of[scenario]["final"]
    assert events[0]["type"] == "response.created"
    assert events[-1]["response"]["status"] == final["status"] == scenario.removeprefix("stream").lower()
    assert events[-1]["response"]["output_text"] == final["output_text"] == text_of(events)


@by_openai
def test_it_serves_the_streaming_helper_of_responses(of: Scenarios) -> None:
    for scenario in ("researchHelper", "responseHelper"):
        helped = of[scenario]
        assert helped["final"]["status"] == "completed"
        assert helped["final"]["output_text"] == helped["said"] != ""


@by_openai
def test_it_resumes_a_run_s_stream_where_it_was_left(of: Scenarios) -> None:
    assert of["researchResumed"]["rest"] == of["researchResumed"]["events"][5:]


@by_openai
def test_it_answers_a_chat_as_a_response(of: Scenarios) -> None:
    made, again = of["response"]["made"], of["response"]["again"]
    TypeAdapter(Response).validate_python(made, strict=True)
    assert made == again
    assert of["response"]["items"][0]["content"][0]["text"] == "Why is the sky blue?"


@by_openai
@pytest.mark.parametrize(
    ("scenario", "status"), [("responseStream", "completed"), ("responseBroken", "failed")]
)
def test_it_streams_a_chat_as_a_response(of: Scenarios, scenario: str, status: str) -> None:
    events = checked(of[scenario]["events"], "strict")
    assert events[-1]["response"]["status"] == status
    assert text_of(events)


@by_openai
def test_it_chains_responses(of: Scenarios) -> None:
    chained = of["responseChained"]
    assert chained["second"]["previous_response_id"] == chained["first"]["id"]
    assert chained["second"]["status"] == "completed"


@by_openai
def test_it_answers_in_the_background(of: Scenarios) -> None:
    queued, done = of["responseBackground"]["queued"], of["responseBackground"]["done"]
    assert (queued["status"], done["status"]) == ("queued", "completed")
    assert done["output_text"]


@by_openai
def test_it_cancels_twice_what_it_cancels_once(of: Scenarios) -> None:
    assert of["responseCancelled"]["first"]["status"] == "cancelled"
    assert of["responseCancelled"]["again"] == of["responseCancelled"]["first"]


@by_openai
def test_it_forgets_a_response_that_was_deleted(of: Scenarios) -> None:
    assert of["responseDeleted"]["class"] == "NotFoundError"


@both
@pytest.mark.parametrize(
    ("status", "class_name", "code", "param"),
    [
        (400, "BadRequestError", None, "input"),
        (401, "AuthenticationError", "invalid_api_key", None),
        (404, "NotFoundError", "not_found", None),
        (413, "APIError", "payload_too_large", None),
        (422, "UnprocessableEntityError", "idempotency_key_reused", "idempotency_key"),
        (429, "RateLimitError", "rate_limit_exceeded", None),
    ],
)
def test_it_raises_the_sdk_s_own_class(
    of: Scenarios, status: int, class_name: str, code: str | None, param: str | None
) -> None:
    caught = of[str(status)]
    assert (caught["class"], caught["status"]) == (class_name, status)
    assert (error_of(caught)["code"], error_of(caught)["param"]) == (code, param)
    assert caught["requestId"].startswith("req_")


@both
def test_it_says_when_to_come_back(of: Scenarios) -> None:
    assert 1 <= int(of["429"]["retryAfter"]) <= 60


@by_openai
def test_it_completes_a_chat(of: Scenarios) -> None:
    TypeAdapter(ChatCompletion).validate_python(of["chat"], strict=True)
    assert of["chat"]["choices"][0]["message"]["content"]


@by_openai
def test_it_streams_a_chat(of: Scenarios) -> None:
    chunks = of["chatStream"]
    for chunk in chunks:
        TypeAdapter(ChatCompletionChunk).validate_python(chunk, strict=True)
    assert any(chunk["choices"] and chunk["choices"][0]["delta"].get("content") for chunk in chunks)
    assert chunks[-1]["usage"]["total_tokens"] > 0


@by_openai
def test_it_serves_the_streaming_helper(of: Scenarios) -> None:
    final = of["chatHelper"]["final"]["choices"][0]
    assert final["finish_reason"] == "stop"
    assert final["message"]["content"] == of["chatHelper"]["said"]


@by_openai
@pytest.mark.parametrize(
    ("scenario", "class_name", "code"),
    [
        ("chat400", "BadRequestError", "model_not_found"),
        ("chat401", "AuthenticationError", "invalid_api_key"),
        ("chat403", "PermissionDeniedError", "model_not_available"),
        ("chat413", "APIError", "payload_too_large"),
        ("chat429", "RateLimitError", "insufficient_quota"),
        ("chat502", "InternalServerError", "upstream_error"),
        ("response400", "BadRequestError", "model_not_found"),
        ("response401", "AuthenticationError", "invalid_api_key"),
        ("response429", "RateLimitError", "insufficient_quota"),
        ("response502", "InternalServerError", "upstream_error"),
    ],
)
def test_it_raises_a_chat_s_errors(of: Scenarios, scenario: str, class_name: str, code: str) -> None:
    caught = of[scenario]
    assert (caught["class"], caught["status"], caught["code"]) == (class_name, int(scenario[-3:]), code)


@by_perplexity
@pytest.mark.parametrize(
    ("scenario", "class_name", "kind"),
    [
        ("chat400", "BadRequestError", "invalid_model"),
        ("chat401", "AuthenticationError", "invalid_api_key"),
        ("chat413", "APIError", "payload_too_large"),
        ("chat429", "RateLimitError", "insufficient_quota"),
        ("chat502", "InternalServerError", "bad_gateway"),
        ("job400", "BadRequestError", "invalid_model"),
        ("job401", "AuthenticationError", "invalid_api_key"),
        ("job404", "NotFoundError", "not_found"),
        ("job413", "APIError", "payload_too_large"),
    ],
)
def test_it_raises_sonar_s_errors_in_the_gateway_s_shape(
    of: Scenarios, scenario: str, class_name: str, kind: str
) -> None:
    caught = of[scenario]
    assert (caught["class"], error_of(caught)["type"]) == (class_name, kind)
    assert error_of(caught)["code"] == caught["status"] == int(scenario[-3:])


@both
def test_it_raises_in_the_middle_of_a_stream_that_breaks(of: Scenarios) -> None:
    caught = of["chatBroken"]
    assert caught["class"] == "APIError"
    assert error_of(caught)["message"] == "The upstream broke off its answer."


@both
def test_it_charges_once_what_the_sdk_leaves_in_the_middle(of: Scenarios) -> None:
    """The answer would have taken half a minute more, and its credit would be reserved all that time."""
    assert of["chatLeft"] == {"balance": 4.9, "reserved": 0}


@by_perplexity
def test_it_completes_in_sonar_s_shape(of: Scenarios) -> None:
    TypeAdapter(StreamChunk).validate_python(of["chat"], strict=True)
    assert of["chat"]["choices"][0]["message"]["content"]
    assert of["chat"]["citations"]


@by_perplexity
@pytest.mark.parametrize(
    ("scenario", "last"), [("chatFull", "chat.completion.chunk"), ("chatConcise", "chat.completion.done")]
)
def test_it_streams_in_sonar_s_shape(of: Scenarios, scenario: str, last: str) -> None:
    chunks = of[scenario]
    for chunk in chunks:
        TypeAdapter(StreamChunk).validate_python(chunk, strict=True)
    said = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert (chunks[-1]["object"], chunks[-1]["choices"][0]["message"]["content"]) == (last, said)


@by_perplexity
@pytest.mark.parametrize(
    ("scenario", "status", "finish"),
    [
        ("jobCompleted", "COMPLETED", "stop"),
        ("jobIncomplete", "COMPLETED", "length"),
        ("jobFailed", "FAILED", ""),
    ],
)
def test_it_ends_a_job(of: Scenarios, scenario: str, status: str, finish: str) -> None:
    job = of[scenario]
    for shown in (job["created"], job["done"]):
        TypeAdapter(CompletionGetResponse).validate_python(shown, strict=True)
    assert (job["created"]["status"], job["done"]["status"]) == ("CREATED", status)
    response = job["done"]["response"]
    assert (response["choices"][0]["finish_reason"] if response else "") == finish
    assert bool(job["done"]["error_message"]) is (status == "FAILED")


@by_perplexity
def test_it_starts_a_job_once_per_idempotency_key(of: Scenarios) -> None:
    assert of["jobOnce"]["first"]["id"] == of["jobOnce"]["again"]["id"]
    other = of["jobOnce"]["other"]
    assert (other["class"], error_of(other)["type"]) == (
        "UnprocessableEntityError",
        "idempotency_key_reused",
    )


@by_perplexity
def test_it_lists_jobs(of: Scenarios) -> None:
    shown = of["jobList"]["list"]
    TypeAdapter(CompletionListResponse).validate_python(shown, strict=True)
    assert of["jobList"]["created"]["id"] in {job["id"] for job in shown["requests"]}


@by_openai
def test_it_keeps_files(of: Scenarios) -> None:
    files = of["files"]
    FileObject.model_validate(files["made"], strict=True)
    assert (files["made"]["filename"], files["made"]["bytes"]) == ("кот.png", 1008)
    assert files["same"]
    assert files["made"] in files["listed"]
    assert files["gone"] == {"id": files["made"]["id"], "object": "file", "deleted": True}
    assert (files["after"]["class"], files["after"]["param"]) == ("NotFoundError", "file_id")


@by_openai
@pytest.mark.parametrize(
    ("scenario", "status", "param"),
    [("file413", 413, "file"), ("file400", 400, "file"), ("document502", 502, "input")],
)
def test_it_names_what_is_wrong_with_a_file(of: Scenarios, scenario: str, status: int, param: str) -> None:
    told = of[scenario]
    assert (told["status"], told["param"]) == (status, param)
    assert told["requestId"]


@by_openai
def test_it_shows_pictures_to_the_model(of: Scenarios) -> None:
    pictures = of["pictures"]
    assert pictures["said"]
    assert pictures["status"] == "completed"
