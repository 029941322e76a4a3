"""The portal's own JSON. Paths are exact; whatever else begins with `api` is nobody's."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from portal.api.account import AccountView
from portal.api.handler import envelope, nothing_here


@csrf_exempt
def nowhere(request: HttpRequest) -> HttpResponse:
    return envelope(nothing_here())


urlpatterns = [
    path("api/account", AccountView.as_view(), name="api_account"),
    re_path(r"^api(?:/|$)", nowhere),
]
