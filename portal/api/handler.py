"""One place where errors become answers: for the lean doors, for DRF, and for Django's own."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response

from portal.wire.errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    NotJson,
    Problem,
    unauthenticated,
    unavailable,
)

log = logging.getLogger(__name__)


def problem_of(error: Exception, request_id: str) -> Problem:
    """What to answer to `error`. What nobody foresaw is logged, and told without a detail."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, exceptions.APIException):
        return _problem_of_framework(error)
    if isinstance(error, Http404):
        return nothing_here()
    if isinstance(error, PermissionDenied):
        return Forbidden("You may not do this.")
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("request %s met an unavailable database: %s", request_id, type(error).__name__)
        return unavailable()
    log.error("request %s failed", request_id, exc_info=error)
    return internal_error()


def internal_error() -> Problem:
    return Problem("Something went wrong on our side. Give this request's x-request-id to your operator.")


def nothing_here() -> NotFound:
    return NotFound("There is nothing at this address.", code="not_found")


def handle_exception(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's EXCEPTION_HANDLER: the envelope, for every error there is."""
    problem = problem_of(error, getattr(context["request"], "request_id", ""))
    return Response(problem.body(), status=problem.status, headers=dict(problem.headers))


def envelope(problem: Problem) -> HttpResponse:
    """The same answer outside DRF."""
    return HttpResponse(
        problem.encoded(), status=problem.status, headers=problem.headers, content_type="application/json"
    )


def is_api(request: HttpRequest) -> bool:
    """Whether scripts, not people, will read the answer."""
    return is_api_path(request.path)


def is_api_path(path: str) -> bool:
    return path.removeprefix("/").partition("/")[0] in ("v1", "api", "health")


def _problem_of_framework(error: exceptions.APIException) -> Problem:
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return unauthenticated()
    if isinstance(error, exceptions.NotFound):
        return nothing_here()
    if isinstance(error, exceptions.ValidationError):
        return _invalid(error.detail)
    kinds: dict[int, type[Problem]] = {403: Forbidden, 405: MethodNotAllowed, 415: NotJson}
    return kinds.get(error.status_code, BadRequest)(str(error.detail))


def _invalid(detail: Any) -> BadRequest:
    """The first thing that is wrong, and the field it is in."""
    param: str | None = None
    while isinstance(detail, dict | list) and detail:
        if isinstance(detail, dict):
            name, detail = next(iter(detail.items()))
            param = param or (None if name == "non_field_errors" else str(name))
        else:
            detail = detail[0]
    return BadRequest(str(detail) if detail else "The request is not valid.", param=param)
