"""The lean doors as ASGI: paths, methods, bodies, errors; research itself is tested elsewhere."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from pytest_django import Settings

from portal.api.intake import LARGEST_BODY, Room
from portal.api.lean import Answer, Call, Doors, KeyRoute, OpenRoute, answer_json
from portal.services.principal import Principal
from portal.wire.errors import Conflict
from tests.api_client import Client


async def echo(call: Call) -> Answer:
    return answer_json(
        {
            "method": call.method,
            "parts": dict(call.parts),
            "query": dict(call.query),
            "key": call.headers.get("idempotency-key"),
            "size": len(call.body),
            "peer": call.peer,
            "request": call.request_id,
        }
    )


async def read(call: Call) -> Answer:
    return answer_json(call.json())


async def refuse(call: Call) -> Answer:
    raise Conflict("No.", param="x", code="c", headers={"Retry-After": "3"})


async def break_down(call: Call) -> Answer:
    raise RuntimeError("secret detail")


async def lose_database(call: Call) -> Answer:
    raise OperationalError("host db.internal is down")


def enter(call: Call, who: Principal) -> Answer:
    return answer_json({"size": len(call.body)})


ROUTES = (
    OpenRoute("GET", "/v1/things", echo),
    OpenRoute("POST", "/v1/things", echo),
    OpenRoute("GET", "/v1/things/{id}", echo),
    OpenRoute("POST", "/v1/things/{id}/stop", echo),
    OpenRoute("POST", "/v1/read", read),
    OpenRoute("GET", "/v1/refuse", refuse),
    OpenRoute("GET", "/v1/break", break_down),
    OpenRoute("GET", "/v1/database", lose_database),
    OpenRoute("GET", "/health", echo),
    KeyRoute("POST", "/v1/locked", "research", enter),
    KeyRoute("POST", "/chat/completions", "chat", enter),
)
DOORS = Doors(ROUTES)
client = Client(DOORS)


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


def test_it_takes_a_body_up_to_its_limit() -> None:
    response = client.post("/v1/things", content=b"x" * LARGEST_BODY)
    assert response.json()["size"] == LARGEST_BODY


class Wire:
    """An ASGI connection by hand: what is received, what was read of it, what was sent."""

    def __init__(self, *chunks: bytes, length: str | None = None, cut: bool = False) -> None:
        more = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        last: dict[str, Any] = {"type": "http.disconnect"} if cut else {"type": "http.request", "body": b""}
        self.messages: list[dict[str, Any]] = [*more, last]
        self.read = 0
        self.sent: list[Any] = []
        headers = [(b"content-length", length.encode())] if length is not None else []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/things",
            "query_string": b"",
            "headers": headers,
        }

    async def receive(self) -> dict[str, Any]:
        self.read += 1
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def call(self) -> None:
        await DOORS(self.scope, self.receive, self.send)


def error_in(wire: Wire) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(wire.sent[1]["body"])["error"]
    return error


async def test_it_refuses_a_large_body_by_its_announced_length_unread() -> None:
    for length in (str(LARGEST_BODY + 1), "9" * 30):
        wire = Wire(b"x", length=length)
        await wire.call()
        assert (wire.sent[0]["status"], wire.read) == (413, 0)
        assert json.loads(wire.sent[1]["body"])["error"]["code"] == "payload_too_large"


async def test_it_stops_reading_a_body_that_grows_too_large() -> None:
    wire = Wire(*[b"x" * LARGEST_BODY] * 9)
    await wire.call()
    assert (wire.sent[0]["status"], wire.read) == (413, 2)


async def test_it_waits_for_no_body_for_ever() -> None:
    wire = Wire(b"x")

    async def dribble() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    await Doors(ROUTES, body_seconds=0.1)(wire.scope, dribble, wire.send)

    assert wire.sent[0]["status"] == 408
    assert (b"connection", b"close") in wire.sent[0]["headers"]
    assert error_in(wire)["code"] is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("header", [(b"content-length", b"900000"), (b"transfer-encoding", b"chunked")])
async def test_it_reads_no_large_body_of_who_has_no_key(header: tuple[bytes, bytes]) -> None:
    wire = Wire(*[b"x" * 1000] * 900)
    wire.scope |= {"path": "/v1/locked", "headers": [header]}

    await wire.call()

    assert (wire.sent[0]["status"], wire.read) == (401, 0)
    assert error_in(wire)["code"] == "invalid_api_key"


async def test_it_keeps_no_more_of_small_bodies_than_it_has_room_for() -> None:
    doors, wires = Doors(ROUTES), [Wire(b"x" * 6), Wire(b"x" * 11)]
    doors.room = Room(10)

    for wire in wires:
        await doors(wire.scope, wire.receive, wire.send)

    assert [wire.sent[0]["status"] for wire in wires] == [200, 503]
    assert doors.room.used == 0


@pytest.mark.django_db(transaction=True)
async def test_it_looks_who_comes_before_it_reads_when_room_is_short() -> None:
    doors, wire = Doors(ROUTES), Wire(b"x")
    wire.scope |= {"path": "/v1/locked"}
    doors.room.take(doors.room.most // 2 + 1)

    await doors(wire.scope, wire.receive, wire.send)

    assert (wire.sent[0]["status"], wire.read) == (401, 0)


async def test_it_answers_nobody_when_the_client_left() -> None:
    wire = Wire(b"x", cut=True)
    await wire.call()
    assert wire.sent == []


async def test_it_serves_a_connection_without_an_address() -> None:
    wire = Wire(b"x")
    await wire.call()
    assert json.loads(wire.sent[1]["body"])["peer"] is None


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
