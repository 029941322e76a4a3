"""The lean doors as ASGI: paths, methods, bodies, errors; research itself is tested elsewhere."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from portal.api.lean import Doors
from portal.api.routes import OpenRoute
from tests.api_client import Client
from tests.portal.api.some_doors import DOORS, client, echo


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "type", "param"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("path", "claimed"),
    [
        ("/v1", True),
        ("/v1/", True),
        ("/v1/x/y", True),
        ("/health", True),
        ("/health/x", True),
        ("/", False),
        ("/v10/things", False),
        ("/healthy", False),
        ("/api/account", False),
        ("*", False),
        ("/responses", True),
        ("/responses/resp_1/cancel", True),
        ("/responsesx", False),
        ("/v1x/v1/things", False),
    ],
)
def test_it_claims_its_own_paths_whole(path: str, claimed: bool) -> None:
    assert DOORS.serves(path) is claimed


@pytest.mark.parametrize("path", ["/v1/v1/responses/5", "/responses/5"])
def test_it_knows_what_a_base_url_with_one_v1_too_many_or_too_few_means(path: str) -> None:
    doors = Doors([OpenRoute("GET", "/v1/responses/{id}", echo)])
    assert doors.serves(path)
    assert Client(doors).get(path).json()["parts"] == {"id": "5"}


def test_it_hands_over_what_was_asked() -> None:
    response = client.post(
        "/v1/things/42/stop?a=1&a=2&b=%20x", headers={"Idempotency-Key": "ключ".encode()}, content=b"abc"
    )
    assert response.json() == {
        "method": "POST",
        "parts": {"id": "42"},
        "query": {"a": "2", "b": " x"},
        "key": "ключ",
        "size": 3,
        "peer": "127.0.0.1",
        "request": response.headers["x-request-id"],
    }


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v1/things/",
        "/v1//things",
        "/v1/things/1/2",
        "/v1/things//stop",
        "/v1/things/a%2Fb",
        "/V1/things",
        "/v1/Things",
        "/health/",
    ],
)
def test_it_answers_unknown_paths_with_one_404(path: str) -> None:
    response = client.get(path) if path != "/V1/things" else client.get("/v1/V1/things")
    assert response.status_code == 404
    error = error_of(response)
    assert error == {
        "code": "not_found",
        "message": "There is nothing at this address.",
        "type": "invalid_request_error",
        "param": None,
    }


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/things", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/things/1", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/things/1/stop", "OPTIONS, POST"),
        ("HEAD", "/v1/things/1/stop", "OPTIONS, POST"),
        ("BREW", "/v1/things", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_it_names_the_methods_of_a_path(method: str, path: str, allow: str) -> None:
    response = client.request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, allow)
    if method != "HEAD":
        assert error_of(response)["message"] == f"Use one of these methods here: {allow}."


def test_it_answers_options_without_a_body() -> None:
    response = client.request("OPTIONS", "/v1/things")
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert "content-length" not in response.headers


def test_it_answers_head_like_get_without_the_body() -> None:
    response = client.request("HEAD", "/v1/things", headers={"x-request-id": "r1"})
    whole = client.get("/v1/things", headers={"x-request-id": "r1"})
    assert (response.status_code, response.content) == (200, b"")
    assert int(response.headers["content-length"]) == len(whole.content) + len("HEAD") - len("GET")


def test_it_writes_json_with_spaces_and_letters_as_they_are() -> None:
    response = client.post("/v1/read", json={"status": "é", "b": [1, 2]})
    assert response.content == '{"status": "é", "b": [1, 2]}'.encode()


@pytest.mark.parametrize(
    ("given", "kept"), [("my-id.1", True), ("", False), ("x" * 65, False), ("<script>", False)]
)
def test_it_keeps_a_harmless_request_id(given: str, kept: bool) -> None:
    told = client.get("/v1/nope", headers={"x-request-id": given}).headers["x-request-id"]
    assert (told == given) is kept
    assert kept or told.startswith("req_")


def test_it_carries_a_problem_s_own_headers() -> None:
    response = client.get("/v1/refuse")
    assert (response.status_code, response.headers["retry-after"]) == (422, "3")
    assert error_of(response) == {
        "code": "c",
        "message": "No.",
        "type": "invalid_request_error",
        "param": "x",
    }


def test_it_logs_what_nobody_foresaw_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    response = client.get("/v1/break", headers={"x-request-id": "find-me"})
    assert response.status_code == 500
    assert error_of(response)["type"] == "server_error"
    assert "secret detail" not in response.text
    assert "request find-me failed" in caplog.text
    assert "secret detail" in caplog.text


def test_it_asks_to_come_back_when_the_database_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    response = client.get("/v1/database")
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert "db.internal" not in response.text + caplog.text


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain"])
def test_it_takes_json_only(kind: str) -> None:
    response = client.post("/v1/read", content=b"{}", headers={"content-type": kind})
    assert response.status_code == 415
    assert error_of(response)["message"] == "The body must be JSON: send 'Content-Type: application/json'."


def test_it_refuses_hundreds_of_query_parameters() -> None:
    response = client.get("/v1/things?" + "&".join(f"a{n}=1" for n in range(101)))
    assert response.status_code == 400
    assert error_of(response)["message"] == "The query has too many parameters."


ORIGIN = "https://lab.example"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}


def test_it_shows_other_origins_nothing_while_none_is_configured() -> None:
    response = client.request("OPTIONS", "/v1/things", headers=PREFLIGHT)
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_it_opens_to_configured_origins(settings: Settings) -> None:
    settings.CORS_ORIGINS = (ORIGIN,)
    before = client.request("OPTIONS", "/v1/things", headers=PREFLIGHT)
    assert before.status_code == 204
    assert before.headers["access-control-allow-origin"] == ORIGIN
    assert before.headers["access-control-allow-headers"] == "Authorization, *"
    assert "POST" in before.headers["access-control-allow-methods"]
    answer = client.get("/v1/nope", headers={"Origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_it_stays_closed_to_other_origins(settings: Settings) -> None:
    settings.CORS_ORIGINS = (ORIGIN,)
    answer = client.get("/v1/things", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["vary"] == "Origin"


def test_it_claims_no_page_for_a_path_beneath_it() -> None:
    assert DOORS.serves("/chat/completions")
    assert DOORS.serves("/async/nothing")
    assert not DOORS.serves("/chat")
    assert not DOORS.serves("/chat/5f0f")


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("POST", "/chat/completions", "invalid_api_key", 401),
        ("GET", "/chat/completions", "method_not_allowed", 405),
        ("GET", "/async/nothing", "not_found", 404),
    ],
)
def test_it_refuses_in_the_gateway_s_shape_on_its_paths(
    method: str, path: str, kind: str, status: int
) -> None:
    response = client.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (status, kind, status)
    assert response.headers["x-request-id"]
