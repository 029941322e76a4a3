"""Connect: set-ups to paste, and the file that laptops run."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.pages import setups
from portal.pages.base import page


@require_safe
@page
def connect(request: HttpRequest) -> HttpResponseBase:
    groups = (
        ("Agents, over MCP", setups.agents(settings.PUBLIC_URL)),
        ("Scripts, over HTTP", setups.scripts(settings.PUBLIC_URL)),
    )
    return render(request, "portal/connect.html", {"groups": groups, "file": setups.FILE})


@require_safe
def relay(request: HttpRequest) -> HttpResponse:
    """`sonde_mcp.py`, for anybody: `curl` fetches it before there is a key, and nothing secret is in it."""
    text = (settings.BASE_DIR / setups.FILE).read_bytes()
    disposition = f'attachment; filename="{setups.FILE}"'
    return HttpResponse(
        text, content_type="text/x-python; charset=utf-8", headers={"Content-Disposition": disposition}
    )
