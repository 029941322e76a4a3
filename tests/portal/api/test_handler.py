from __future__ import annotations

import logging
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from rest_framework import exceptions

from portal import urls
from portal.api.framework import problem_of
from portal.wire.errors import Conflict


@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (Conflict("No."), 422, "invalid_request_error"),
        (exceptions.NotAuthenticated(), 401, "invalid_request_error"),
        (exceptions.AuthenticationFailed(), 401, "invalid_request_error"),
        (exceptions.PermissionDenied(), 403, "permission_error"),
        (PermissionDenied(), 403, "permission_error"),
        (exceptions.NotFound(), 404, "invalid_request_error"),
        (Http404(), 404, "invalid_request_error"),
        (exceptions.MethodNotAllowed("PUT"), 405, "invalid_request_error"),
        (exceptions.UnsupportedMediaType("text/plain"), 415, "invalid_request_error"),
        (exceptions.ParseError(), 400, "invalid_request_error"),
        (OperationalError(), 503, "server_error"),
        (InterfaceError(), 503, "server_error"),
        (KeyError("x"), 500, "server_error"),
    ],
)
def test_it_has_an_answer_to_every_error(error: Exception, status: int, type_: str) -> None:
    problem = problem_of(error, "r")
    assert (problem.status, problem.type) == (status, type_)
    assert problem.message


@pytest.mark.parametrize(
    ("detail", "param", "message"),
    [
        ({"name": ["Too long."]}, "name", "Too long."),
        ({"non_field_errors": ["Odd."]}, None, "Odd."),
        (["Odd."], None, "Odd."),
        ({"items": [{"url": ["Bad."]}]}, "items", "Bad."),
        ({}, None, "The request is not valid."),
    ],
)
def test_it_names_the_first_field_that_is_wrong(detail: Any, param: str | None, message: str) -> None:
    problem = problem_of(exceptions.ValidationError(detail), "r")
    assert (problem.status, problem.param, problem.message) == (400, param, message)


def test_it_logs_only_what_nobody_foresaw(caplog: pytest.LogCaptureFixture) -> None:
    problem_of(Conflict("No."), "one")
    problem_of(KeyError("x"), "two")
    problem_of(OperationalError("planted"), "three")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "request two failed"),
        (logging.WARNING, "request three met an unavailable database: OperationalError"),
    ]


@pytest.mark.parametrize("path", ["/api/x", "/v1/x", "/health/x"])
def test_it_answers_scripts_in_json_where_django_itself_answers(path: str) -> None:
    request = RequestFactory().get(path)
    answers: list[HttpResponse] = [
        urls.bad_request(request, ValueError("planted")),
        urls.permission_denied(request, PermissionDenied("planted")),
        urls.page_not_found(request, Http404("planted")),
        urls.server_error(request),
    ]
    assert [answer.status_code for answer in answers] == [400, 403, 404, 500]
    for answer in answers:
        assert answer.headers["content-type"] == "application/json"
        assert b"planted" not in answer.content


def test_it_answers_people_in_pages(client: Client, db: None) -> None:
    answer = client.get("/nowhere")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert urls.server_error(RequestFactory().get("/x")).headers["content-type"] == "text/html; charset=utf-8"


def test_it_refuses_a_wrong_host_in_json(client: Client) -> None:
    answer = client.get("/api/account", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "The request cannot be read.")
