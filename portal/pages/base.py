"""What every page shares: who is looking, and errors that are pages instead of JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache

from portal.api.auth import client_address
from portal.models.users import User
from portal.services.errors import Invalid
from portal.services.principal import Principal, principal_of
from portal.wire.errors import Forbidden, NotFound


def principal(request: HttpRequest) -> Principal:
    """The person who is logged in; only for views behind `page`."""
    user = request.user
    assert isinstance(user, User)
    address = client_address(request.headers, request.META.get("REMOTE_ADDR"))
    return principal_of(user, address=address, request_id=getattr(request, "request_id", ""))


def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A page for people who are logged in; what is not theirs is the same 404 as what is not there."""

    @never_cache
    @login_required
    @wraps(view)
    def shown(request: HttpRequest, *args: str, **kwargs: str) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except NotFound:
            raise Http404 from None
        except Forbidden:
            raise PermissionDenied from None

    return shown


def sentence(problem: Invalid) -> str:
    """What went wrong, as it stands on a page."""
    text = str(problem)
    return text[:1].upper() + text[1:]
