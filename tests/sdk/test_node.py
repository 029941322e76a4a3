"""What Node's SDKs do beside the matrix (test_matrix): helpers, chat, functions, files, Sonar.

Each SDK's script plays all of its scenarios at once (tests/node); here is what must have come of them.
"""

from __future__ import annotations

import json

import pytest
from openai.types import FileObject
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from perplexity.types.async_.chat.completion_get_response import CompletionGetResponse
from perplexity.types.async_.chat.completion_list_response import CompletionListResponse
from perplexity.types.stream_chunk import StreamChunk
from pydantic import TypeAdapter

from tests.openapi import misfits_of
from tests.sdk.scenarios import SDKS, Results, Scenes, error_of, played

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
both = pytest.mark.parametrize("sdk", SDKS)
by_openai = pytest.mark.parametrize("sdk", ["openai"])
by_perplexity = pytest.mark.parametrize("sdk", ["perplexity"])


@pytest.fixture(scope="session")
def every() -> dict[str, Results]:
    return played()


@pytest.fixture
def of(every: dict[str, Results], sdk: str) -> Scenes:
    """What became of each scenario of `sdk`."""
    return Scenes(every[f"{sdk}-node"])


@by_openai
def test_it_serves_the_streaming_helper_of_responses(of: Scenes) -> None:
    for scenario in ("researchHelper", "responseHelper"):
        helped = of[scenario]
        assert helped["final"]["status"] == "completed"
        assert helped["final"]["output_text"] == helped["said"] != ""


@by_openai
def test_it_resumes_a_run_s_stream_where_it_was_left(of: Scenes) -> None:
    assert of["researchResumed"]["rest"] == of["researchResumed"]["events"][5:]


@by_openai
def test_it_answers_a_chat_as_a_response(of: Scenes) -> None:
    made, again = of["response"]["made"], of["response"]["again"]
    TypeAdapter(Response).validate_python(made, strict=True)
    assert made == again
    assert of["response"]["items"][0]["content"][0]["text"] == "Why is the sky blue?"


@by_openai
def test_it_chains_responses(of: Scenes) -> None:
    chained = of["responseChained"]
    assert chained["second"]["previous_response_id"] == chained["first"]["id"]
    assert chained["second"]["status"] == "completed"


@by_openai
def test_it_forgets_a_response_that_was_deleted(of: Scenes) -> None:
    assert of["responseDeleted"]["class"] == "NotFoundError"


@by_openai
def test_it_completes_a_chat(of: Scenes) -> None:
    TypeAdapter(ChatCompletion).validate_python(of["chat"], strict=True)
    assert misfits_of("CreateChatCompletionResponse", of["chat"]) == []
    assert of["chat"]["choices"][0]["message"]["content"]


@by_openai
def test_it_streams_a_chat(of: Scenes) -> None:
    chunks = of["chatStream"]
    for chunk in chunks:
        TypeAdapter(ChatCompletionChunk).validate_python(chunk, strict=True)
        assert misfits_of("CreateChatCompletionStreamResponse", chunk) == []
    assert any(chunk["choices"] and chunk["choices"][0]["delta"].get("content") for chunk in chunks)
    assert chunks[-1]["usage"]["total_tokens"] > 0


@by_openai
def test_it_serves_the_streaming_helper(of: Scenes) -> None:
    final = of["chatHelper"]["final"]["choices"][0]
    assert final["finish_reason"] == "stop"
    assert final["message"]["content"] == of["chatHelper"]["said"]


@by_openai
def test_it_runs_tools_by_itself(of: Scenes) -> None:
    assert of["tools"]["seen"] == [{"sku": "DEMO"}]
    assert '"quantity":7' in of["tools"]["said"]
    assert [message["role"] for message in of["tools"]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@by_openai
def test_it_streams_function_calls_to_its_helpers(of: Scenes) -> None:
    choice = of["toolStream"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"sku": "DEMO"}
    [call] = [item for item in of["toolHelper"]["final"]["output"] if item["type"] == "function_call"]
    assert call["arguments"] == of["toolHelper"]["joined"] != ""


@by_openai
@pytest.mark.parametrize(
    ("scenario", "class_name", "code"),
    [
        ("tool502", "InternalServerError", "tool_protocol_error"),
        ("chat400", "BadRequestError", "model_not_found"),
        ("chat401", "AuthenticationError", "invalid_api_key"),
        ("chat403", "PermissionDeniedError", "model_not_available"),
        ("chat413", "APIError", "payload_too_large"),
        ("chat429", "RateLimitError", "insufficient_quota"),
        ("chat502", "InternalServerError", "upstream_error"),
        ("response502", "InternalServerError", "upstream_error"),
    ],
)
def test_it_raises_a_chat_s_errors(of: Scenes, scenario: str, class_name: str, code: str) -> None:
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
    of: Scenes, scenario: str, class_name: str, kind: str
) -> None:
    caught = of[scenario]
    assert (caught["class"], error_of(caught)["type"]) == (class_name, kind)
    assert error_of(caught)["code"] == caught["status"] == int(scenario[-3:])


@both
def test_it_raises_in_the_middle_of_a_stream_that_breaks(of: Scenes) -> None:
    caught = of["chatBroken"]
    assert caught["class"] == "APIError"
    assert error_of(caught)["message"] == "The upstream broke off its answer."


@both
def test_it_charges_once_what_the_sdk_leaves_in_the_middle(of: Scenes) -> None:
    """The answer would have taken half a minute more, and its credit would be reserved all that time."""
    assert of["chatLeft"] == {"balance": 4.9, "reserved": 0}


@by_perplexity
def test_it_completes_in_sonar_s_shape(of: Scenes) -> None:
    TypeAdapter(StreamChunk).validate_python(of["chat"], strict=True)
    assert of["chat"]["choices"][0]["message"]["content"]
    assert of["chat"]["citations"]


@by_perplexity
@pytest.mark.parametrize(
    ("scenario", "last"), [("chatFull", "chat.completion.chunk"), ("chatConcise", "chat.completion.done")]
)
def test_it_streams_in_sonar_s_shape(of: Scenes, scenario: str, last: str) -> None:
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
def test_it_ends_a_job(of: Scenes, scenario: str, status: str, finish: str) -> None:
    job = of[scenario]
    for shown in (job["created"], job["done"]):
        TypeAdapter(CompletionGetResponse).validate_python(shown, strict=True)
    assert (job["created"]["status"], job["done"]["status"]) == ("CREATED", status)
    response = job["done"]["response"]
    assert (response["choices"][0]["finish_reason"] if response else "") == finish
    assert bool(job["done"]["error_message"]) is (status == "FAILED")


@by_perplexity
def test_it_starts_a_job_once_per_idempotency_key(of: Scenes) -> None:
    assert of["jobOnce"]["first"]["id"] == of["jobOnce"]["again"]["id"]
    other = of["jobOnce"]["other"]
    assert (other["class"], error_of(other)["type"]) == (
        "UnprocessableEntityError",
        "idempotency_key_reused",
    )


@by_perplexity
def test_it_lists_jobs(of: Scenes) -> None:
    shown = of["jobList"]["list"]
    TypeAdapter(CompletionListResponse).validate_python(shown, strict=True)
    assert of["jobList"]["created"]["id"] in {job["id"] for job in shown["requests"]}


@by_openai
def test_it_keeps_files(of: Scenes) -> None:
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
def test_it_names_what_is_wrong_with_a_file(of: Scenes, scenario: str, status: int, param: str) -> None:
    told = of[scenario]
    assert (told["status"], told["param"]) == (status, param)
    assert told["requestId"]


@by_openai
def test_it_shows_pictures_to_the_model(of: Scenes) -> None:
    pictures = of["pictures"]
    assert pictures["said"]
    assert pictures["status"] == "completed"
