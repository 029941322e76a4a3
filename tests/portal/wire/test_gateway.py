from __future__ import annotations

import json

import pytest

from portal.wire.errors import (
    BadRequest,
    Conflict,
    MethodNotAllowed,
    Problem,
    RateLimited,
    TooLarge,
    Unavailable,
    no_response,
    not_found,
    rate_limited,
    unauthenticated,
)
from portal.wire.gateway import encoded, gateway_body, is_gateway_path


@pytest.mark.parametrize(
    "path",
    [
        "/async/chat/completions",
        "/async/nothing",
        "/chat/completions",
        "/chat/completions/x",
        "/v1/async/sonar/resp_1",
        "/v1/sonar",
    ],
)
def test_it_knows_the_gateway_s_paths(path: str) -> None:
    assert is_gateway_path(path)


@pytest.mark.parametrize("path", ["/chat", "/chat/", "/chat/7", "/v1/chat/completions", "/v1/sonars", "/"])
def test_it_leaves_other_paths_alone(path: str) -> None:
    assert not is_gateway_path(path)


@pytest.mark.parametrize(
    ("problem", "kind", "code"),
    [
        (BadRequest("No."), "invalid_request", 400),
        (BadRequest("No.", code="model_not_found"), "invalid_model", 400),
        (unauthenticated(), "invalid_api_key", 401),
        (not_found(), "not_found", 404),
        (no_response(), "not_found", 404),
        (MethodNotAllowed("No."), "method_not_allowed", 405),
        (TooLarge("No."), "payload_too_large", 413),
        (Conflict("No.", code="idempotency_key_reused"), "idempotency_key_reused", 422),
        (Conflict("No."), "invalid_request", 422),
        (rate_limited(3), "request_rate_limit_exceeded", 429),
        (RateLimited("No.", code="insufficient_quota"), "insufficient_quota", 429),
        (Problem("No."), "internal_error", 500),
        (Unavailable("No."), "service_unavailable", 503),
    ],
)
def test_it_names_the_kind_and_repeats_the_status(problem: Problem, kind: str, code: int) -> None:
    assert gateway_body(problem)["error"] == {"message": problem.message, "type": kind, "code": code}


def test_it_names_the_field_where_there_is_one() -> None:
    assert gateway_body(BadRequest("No.", param="model"))["error"]["param"] == "model"


def test_it_keeps_the_openai_envelope_elsewhere() -> None:
    problem = BadRequest("Nö.", param="model")
    assert json.loads(encoded(problem, "/v1/chat/completions")) == problem.body()
    assert json.loads(encoded(problem, "/chat/completions")) == gateway_body(problem)
