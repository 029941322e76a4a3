"""What every answer of the Django side carries, whether a view made it or an error did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from portal.api.cors import cors_headers
from portal.api.handler import is_api
from portal.wire.ids import accept_request_id


class IdentifiedRequest(HttpRequest):
    """For types only: a request after this middleware."""

    request_id: str


GetResponse = Callable[[HttpRequest], HttpResponse] | Callable[[HttpRequest], Awaitable[HttpResponse]]


class RequestIdMiddleware:
    """Names each request (`request.request_id`, `X-Request-Id`), opens /api to CORS_ORIGINS, and sees
    to it that no answer goes out without a policy, or into a cache that nobody meant.

    It stands before all others, whose refusals never reach a middleware behind them. It runs in
    both worlds, so that Django's handler need not change threads for it.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: IdentifiedRequest) -> HttpResponse | Awaitable[HttpResponse]:
        request.request_id = accept_request_id(request.headers.get("x-request-id"))
        if self.is_async:
            return self._later(request)
        early = _preflight(request)
        return _marked(request, early or cast(HttpResponse, self.get_response(request)))

    async def _later(self, request: IdentifiedRequest) -> HttpResponse:
        early = _preflight(request)
        if early is not None:
            return _marked(request, early)
        return _marked(request, await cast(Awaitable[HttpResponse], self.get_response(request)))


def _preflight(request: HttpRequest) -> HttpResponse | None:
    """A browser asks beforehand, without a key, whether it may send one."""
    asks = request.method == "OPTIONS" and "access-control-request-method" in request.headers
    return HttpResponse(status=204) if asks and is_api(request) else None


def _marked(request: IdentifiedRequest, response: HttpResponse) -> HttpResponse:
    response["X-Request-Id"] = request.request_id
    response.setdefault("Cache-Control", "no-store")
    response.setdefault("X-Content-Type-Options", "nosniff")
    response.setdefault("X-Frame-Options", settings.X_FRAME_OPTIONS)
    if "Content-Security-Policy" not in response:
        response["Content-Security-Policy"] = build_policy()
    if is_api(request):
        preflight = request.method == "OPTIONS"
        headers = cors_headers(request.headers.get("origin"), settings.CORS_ORIGINS, preflight=preflight)
        if headers.pop("Vary", ""):
            patch_vary_headers(response, ["Origin"])
        for name, value in headers.items():
            response[name] = value
    return response
