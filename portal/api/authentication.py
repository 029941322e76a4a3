"""Who is calling, asked by DRF's doors."""

from __future__ import annotations

from typing import Any

from rest_framework import authentication
from rest_framework.request import Request

from portal.api.auth import authenticate, bearer_token, client_address
from portal.models.users import User
from portal.services.principal import Principal, principal_of


class KeyAuthentication(authentication.BaseAuthentication):
    """An API key; `request.auth` is the Principal. A wrong key is refused, a missing one is not ours."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        if bearer_token(request.headers) is None:
            return None
        principal = authenticate(request.headers, request.META.get("REMOTE_ADDR"), _request_id(request))
        return User.objects.get(pk=principal.user_id), principal

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="sonde"'


class SessionAuthentication(authentication.SessionAuthentication):
    """A logged-in browser, with CSRF enforced; `request.auth` is the Principal."""

    def authenticate(self, request: Request) -> tuple[User, Any] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        address = client_address(request.headers, request.META.get("REMOTE_ADDR"))
        return user, principal_of(user, address=address, request_id=_request_id(request))


def _request_id(request: Request) -> str:
    """As the request-id middleware left it on the request."""
    return getattr(request, "request_id", "")
