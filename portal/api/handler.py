"""One place where errors become answers: for the lean doors, and for Django's own. DRF's are put into the
same words by `portal.api.framework`."""

from __future__ import annotations

import logging

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse

from portal.wire.errors import (
    Forbidden,
    NotFound,
    Problem,
    unavailable,
)

log = logging.getLogger(__name__)

DATABASE_IS_AWAY = (OperationalError, InterfaceError)
"""It restarts, is locked, or has no connection left: the same question may be answered in a moment."""


def problem_of(error: Exception, request_id: str) -> Problem:
    """What to answer to `error`. What nobody foresaw is logged, and told without a detail."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Http404):
        return nothing_here()
    if isinstance(error, PermissionDenied):
        return Forbidden("You may not do this.")
    if isinstance(error, DATABASE_IS_AWAY):
        log.warning("request %s met an unavailable database: %s", request_id, type(error).__name__)
        return unavailable()
    log.error("request %s failed", request_id, exc_info=error)
    return internal_error()


def internal_error() -> Problem:
    return Problem("Something went wrong on our side. Give this request's x-request-id to your operator.")


def nothing_here() -> NotFound:
    return NotFound("There is nothing at this address.", code="not_found")


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
