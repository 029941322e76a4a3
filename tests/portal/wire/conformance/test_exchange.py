from __future__ import annotations

import json
from typing import Any

import pytest

from portal.wire.conformance.exchange import ERROR, HTTP, Exchange
from tests.portal.wire.conformance.judging import fails, passes

HEADERS = {"x-request-id": "req_1", "content-type": "application/json; charset=utf-8"}
STREAM = HEADERS | {"content-type": "text/event-stream", "cache-control": "no-cache"}
ERROR_BODY: dict[str, Any] = {
    "message": "n cannot be 2.",
    "type": "invalid_request_error",
    "param": "n",
    "code": None,
}


def answer(status: int = 200, headers: dict[str, str] | None = None, **more: Any) -> Exchange:
    return Exchange(status, HEADERS if headers is None else headers, **more)


def error(status: int = 400, headers: dict[str, str] | None = None, **members: Any) -> Exchange:
    body = json.dumps({"error": ERROR_BODY | members}).encode()
    return Exchange(status, HEADERS | (headers or {}), body, fields=("n", "tools"))


def test_it_passes_good_answers() -> None:
    assert passes(HTTP, answer()) == {"H1", "H2", "H4", "H5"}
    assert passes(HTTP, answer(headers=STREAM, kind="stream")) == {"H1", "H3", "H4", "H5"}
    assert passes(HTTP, answer(headers={"x-request-id": "r"}, kind="bytes")) == {"H1", "H4", "H5"}


BAD_HTTP: list[tuple[str, Exchange]] = [
    ("H1", answer(headers={"content-type": "application/json"})),
    ("H1", answer(headers=HEADERS | {"x-request-id": " "})),
    ("H2", answer(headers=HEADERS | {"content-type": "text/html"})),
    ("H2", answer(502, headers=STREAM, kind="stream")),
    ("H3", answer(headers=HEADERS, kind="stream")),
    ("H3", answer(headers=STREAM | {"content-encoding": "gzip"}, kind="stream")),
    ("H3", answer(headers=STREAM | {"cache-control": "private"}, kind="stream")),
    ("H4", answer(301)),
    ("H5", answer(406)),
]


@pytest.mark.parametrize(("id", "bad"), BAD_HTTP)
def test_it_fails_bad_answers(id: str, bad: Exchange) -> None:
    fails(HTTP, bad, id)


def test_it_passes_good_errors() -> None:
    assert passes(ERROR, error()) == {"E1", "E2", "E3", "E7"}
    assert passes(ERROR, error(param="tools[0].name")) >= {"E7"}
    assert passes(ERROR, error(param=None)) >= {"E7"}
    assert passes(ERROR, error(401, {"www-authenticate": "Bearer"})) >= {"E4"}
    assert passes(ERROR, error(429, {"retry-after": "2"})) >= {"E5"}
    assert passes(ERROR, error(429, {"x-should-retry": "false"})) >= {"E5"}
    assert passes(ERROR, error(409, {"x-should-retry": "false"})) >= {"E6"}


BAD_ERRORS: list[tuple[str, Exchange]] = [
    ("E1", Exchange(400, HEADERS, b'{"detail": "no"}')),
    ("E1", Exchange(400, HEADERS, b"<html>")),
    ("E2", Exchange(400, HEADERS, b'{"error": {"message": "no", "type": "x", "param": null}}')),
    ("E2", Exchange(400, HEADERS, b'{"error": "no"}')),
    ("E3", error(message="")),
    ("E3", error(message=None)),
    ("E3", error(message='Traceback (most recent call last): File "/srv/a.py"')),
    ("E3", error(message="cannot read /home/sonde/data")),
    ("E4", error(401)),
    ("E5", error(429)),
    ("E5", error(429, {"x-should-retry": "true"})),
    ("E6", error(409)),
    ("E7", error(param="m")),
    ("E7", error(param="")),
    ("E7", error(param=5)),
]


@pytest.mark.parametrize(("id", "bad"), BAD_ERRORS)
def test_it_fails_bad_errors(id: str, bad: Exchange) -> None:
    fails(ERROR, bad, id)


def test_it_has_a_bad_answer_for_each_check() -> None:
    assert {id for id, _ in BAD_HTTP + BAD_ERRORS} == {check.id for check in (*HTTP.checks, *ERROR.checks)}
