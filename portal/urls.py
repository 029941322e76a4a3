"""Django's paths: the pages, the admin site and the portal's own JSON. `portal.doors` has the others.

Read with the first request for one of them; API paths are matched exactly first, pages after them.
"""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.urls import URLResolver, include, path
from django.urls.resolvers import RoutePattern
from django.views import defaults

from portal.api.handler import DATABASE_IS_AWAY, envelope, internal_error, is_api, nothing_here
from portal.wire.errors import BadRequest, Forbidden, unavailable


class Later(URLResolver):
    """As `include`, for a module that is imported when somebody asks for one of its paths, or for one of
    their names: others shall not wait for what few ever ask for."""

    def __init__(self, route: str, module: str, namespace: str) -> None:
        super().__init__(RoutePattern(route), module, app_name=namespace, namespace=namespace)

    def _populate(self) -> None:
        """Django looks every path up for the first name that is asked for. Those of a namespace it looks up
        by themselves when one of them is."""


urlpatterns = [
    path("", include("portal.api.urls")),
    Later("admin/", "proxy.api.admin", "json_admin"),
    Later("admin/", "portal.admin.urls", "admin"),
    path("account/", include("portal.pages.account_urls")),
    path("", include("portal.pages.urls")),
    path("", include("proxy.pages.urls")),
    path("", include("research.pages.urls")),
]


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A wrong Host header, or a request that Django cannot read."""
    if is_api(request):
        return envelope(BadRequest("The request cannot be read."))
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if is_api(request):
        return envelope(Forbidden("You may not do this."))
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return envelope(nothing_here()) if is_api(request) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """What nobody caught. A database that is away is no mistake of ours: it comes back."""
    error = sys.exc_info()[1]
    problem = unavailable() if isinstance(error, DATABASE_IS_AWAY) else internal_error()
    if is_api(request):
        return envelope(problem)
    template = f"{problem.status}.html"
    answer = defaults.server_error(request, template)
    return HttpResponse(answer.content, status=problem.status, headers=problem.headers)


handler400 = bad_request
handler403 = permission_denied
handler404 = page_not_found
handler500 = server_error
