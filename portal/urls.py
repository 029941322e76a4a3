"""The roof's map: which path is whose.

`doors` are served straight from ASGI (portal.asgi) and claim `/v1` and `/health` whole, and what
`portal.wire.gateway` lists; Django has the rest. API paths are matched exactly first, pages after them.
"""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views import defaults

from portal.api import health
from portal.api.handler import envelope, internal_error, is_api, nothing_here
from portal.api.lean import Doors
from portal.wire.errors import BadRequest, Forbidden
from proxy.api import chat, conversations, files, models
from proxy.api import sonar as sync_sonar
from proxy.services import health as proxy_health
from research.api import doors as research
from research.api import front
from research.api import sonar as async_sonar

pool = health.Feature(proxy_health.is_well, proxy_health.details)
doors = Doors(
    (
        *health.routes(pool),
        *chat.routes,
        *models.routes,
        *files.routes,
        *conversations.routes,
        *sync_sonar.routes,
        *front.routes,
        *research.routes,
        *async_sonar.routes,
    )
)

urlpatterns = [
    path("", include("portal.api.urls")),
    path("admin/", include("proxy.api.admin")),
    path("admin/", admin.site.urls),
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
    return envelope(internal_error()) if is_api(request) else defaults.server_error(request)


handler400 = bad_request
handler403 = permission_denied
handler404 = page_not_found
handler500 = server_error
