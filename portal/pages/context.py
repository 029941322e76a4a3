"""What every template may use without asking for it."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from portal.services.ledger import balance_of
from portal.services.upstreams import is_configured, uses_sandbox


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation. `name` is the URL's and the icon's; `pages` are the URLs within."""

    name: str
    title: str
    pages: tuple[str, ...] = ()


NAVIGATION = (
    Place("ask", "Ask"),
    Place("runs", "Runs", ("run",)),
    Place("chat", "Chat", ("conversation",)),
    Place("library", "Library"),
    Place("keys", "Keys", ("key-rotate", "key-revoke")),
    Place("connect", "Connect"),
    Place("team", "Team", ("shared-reports",)),
)


def portal(request: HttpRequest) -> dict[str, object]:
    """Balance and upstream are looked up only where a template shows them."""
    user = getattr(request, "user", None)
    return {
        "navigation": NAVIGATION,
        "place": _place(request),
        "public_url": settings.PUBLIC_URL,
        "upstream": SimpleLazyObject(_upstream),
        "balance": SimpleLazyObject(lambda: balance_of(user.pk) if user and user.pk else None),
    }


def _upstream() -> str:
    """What answers here: `sandbox`, `live` or `none` (SPEC 1.3)."""
    if uses_sandbox():
        return "sandbox"
    return "live" if is_configured() else "none"


def _place(request: HttpRequest) -> str:
    """The entry of the navigation that the page belongs to; "" for none."""
    name = request.resolver_match.url_name if request.resolver_match else None
    return next((place.name for place in NAVIGATION if name in (place.name, *place.pages)), "")
