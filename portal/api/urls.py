"""The portal's own JSON. Paths are exact; whatever else begins with `api` is nobody's."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from portal.api.handler import envelope, nothing_here


@csrf_exempt
def nowhere(request: HttpRequest) -> HttpResponse:
    return envelope(nothing_here())


@csrf_exempt
def account(request: HttpRequest) -> HttpResponse:
    # Here, so that no page waits for DRF.
    from portal.api.account import AccountView  # noqa: PLC0415

    return AccountView.as_view()(request)


urlpatterns = [
    path("api/account", account),
    re_path(r"^api(?:/|$)", nowhere),
]
