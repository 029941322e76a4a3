"""The four SDKs, both engines at /v1/responses, each end and each error: one table (agent-api §8).

Every body and event is held against our checks, the newest SDK's types and OpenAI's own document.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import Response
from pydantic import TypeAdapter

from portal.wire.conformance.checks import Profile, faults
from portal.wire.conformance.responses import RESPONSE, ResponseBody
from portal.wire.sse import encode_event
from tests.openapi import misfits_of
from tests.proxy.protocol.response_events import check_stream
from tests.sdk.scenarios import LANGUAGES, SDKS, Results, Scenes, error_of, played

pytestmark = [pytest.mark.slow, pytest.mark.embedded]
PROFILES: dict[str, Profile] = {"research": "agent", "chat": "strict"}
ENDS = [("research", end) for end in ("completed", "failed", "incomplete", "cancelled")] + [
    ("chat", end) for end in ("completed", "failed", "cancelled")
]
"""A chat has no budget that could cut it: it is never incomplete."""
ERRORS: dict[int, tuple[str, str | None, str | None]] = {
    400: ("BadRequestError", None, "input"),
    401: ("AuthenticationError", "invalid_api_key", None),
    404: ("NotFoundError", "not_found", "response_id"),
    413: ("APIStatusError", "payload_too_large", None),
    422: ("UnprocessableEntityError", "idempotency_key_reused", "idempotency_key"),
    429: ("RateLimitError", "rate_limit_exceeded", None),
}
"""Class, code and param. What has no class of its own is Node's APIError; no credit is a chat's 429."""
_strict = TypeAdapter(Response)


@pytest.fixture(scope="session")
def every() -> dict[str, Results]:
    return played()


@pytest.fixture(params=[f"{sdk}-{language}" for sdk in SDKS for language in LANGUAGES])
def player(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def of(every: dict[str, Results], player: str) -> Scenes:
    return Scenes(every[player])


def check(response: dict[str, Any], engine: str) -> None:
    profile = PROFILES[engine]
    assert faults(RESPONSE.run(ResponseBody(response, profile=profile))) == []
    assert misfits_of("Response", response) == []
    if profile == "strict":
        _strict.validate_python(response, strict=True)


@pytest.mark.parametrize(("engine", "end"), ENDS)
def test_it_comes_to_each_end(of: Scenes, engine: str, end: str) -> None:
    scene = of[f"{engine} {end}"]
    created, done = scene["created"], scene["done"]

    assert (created["status"], created["output"], done["status"]) == ("queued", [], end)
    assert (done["id"], done["created_at"]) == (created["id"], created["created_at"])
    assert bool(done["output_text"]) == (end in ("completed", "incomplete"))
    assert (done["error"] is not None) == (end == "failed")
    check(created, engine)
    check(done, engine)
    if engine == "research" and end == "cancelled":
        stopping = scene["stopping"]
        assert (stopping["response_id"], stopping["status"]) == (created["id"], "cancelling")


@pytest.mark.parametrize(("engine", "end"), ENDS)
def test_it_streams_to_each_end(of: Scenes, engine: str, end: str) -> None:
    events, final = of[f"{engine} stream {end}"]["events"], of[f"{engine} stream {end}"]["final"]

    records = b"".join(encode_event(json.dumps(event), event["type"]) for event in events)
    assert check_stream(records, profile=PROFILES[engine]) == events
    last = events[-1]["response"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert last["status"] == final["status"] == end
    assert last["output_text"] == final["output_text"] == "".join(deltas)
    check(final, engine)


@pytest.mark.parametrize("status", ERRORS)
@pytest.mark.parametrize("engine", PROFILES)
def test_it_raises_each_error_as_the_sdks_own_class(
    of: Scenes, player: str, engine: str, status: int
) -> None:
    caught, (class_name, code, param) = of[f"{engine} {status}"], ERRORS[status]

    if status == 413 and player.endswith("node"):
        class_name = "APIError"
    if status == 429 and engine == "chat":
        code = "insufficient_quota"
    error = error_of(caught)
    assert (caught["class"], caught["status"]) == (class_name, status)
    assert (error["code"], error["param"]) == (code, param)
    assert caught["requestId"].startswith("req_")
    assert misfits_of("ErrorResponse", {"error": error}) == []
    if status == 422:
        assert caught["same"]
    if (status, engine) == (429, "research"):
        assert 1 <= int(caught["retryAfter"]) <= 60


def test_it_calls_functions_and_goes_on_from_their_outputs(of: Scenes) -> None:
    first, last = of["chat functions"]["first"], of["chat functions"]["last"]

    [call] = [item for item in first["output"] if item["type"] == "function_call"]
    assert (call["name"], json.loads(call["arguments"])) == ("lookup_inventory", {"sku": "DEMO"})
    assert last["previous_response_id"] == first["id"]
    assert '"quantity"' in last["output_text"]
    check(first, "chat")
    check(last, "chat")
