"""DRF's errors become answers. Apart from `portal.api.handler`, which is loaded by every start: DRF takes a
tenth of one."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions
from rest_framework.response import Response

from portal.api import handler
from portal.wire.errors import BadRequest, Forbidden, MethodNotAllowed, NotJson, Problem, unauthenticated


def problem_of(error: Exception, request_id: str) -> Problem:
    """As `handler.problem_of`, for DRF's own errors, too."""
    if isinstance(error, exceptions.APIException):
        return _problem_of_framework(error)
    return handler.problem_of(error, request_id)


def handle_exception(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's EXCEPTION_HANDLER: the envelope, for every error there is."""
    problem = problem_of(error, getattr(context["request"], "request_id", ""))
    return Response(problem.body(), status=problem.status, headers=dict(problem.headers))


def _problem_of_framework(error: exceptions.APIException) -> Problem:
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return unauthenticated()
    if isinstance(error, exceptions.NotFound):
        return handler.nothing_here()
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
