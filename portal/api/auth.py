"""Who is calling: what every door does before it does anything else.

A key comes as `Authorization: Bearer`, bare `Authorization` or `x-api-key`. The lean asynchronous
doors call `authenticate` in a thread; DRF's doors do the same by `portal.api.authentication`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from django.conf import settings

from portal.services import key_memory
from portal.services.keys import authenticate_key
from portal.services.principal import Principal
from portal.wire.errors import Forbidden, unauthenticated


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The key in the request, in any of its three forms; `headers` ignores case.

    Basic and other schemes carry no key of ours. Where both headers are sent, Authorization counts.
    """
    words = headers.get("authorization", "").split()
    if len(words) == 2 and words[0].lower() == "bearer":
        return words[1]
    if len(words) == 1 and words[0].lower() != "bearer":
        return words[0]
    return headers.get("x-api-key", "").strip() or None if not words else None


def client_address(headers: Mapping[str, str], peer: str | None) -> str | None:
    """The address the request came from: the rightmost one that is no trusted proxy of ours.

    `X-Forwarded-For` is believed only as far as TRUSTED_PROXIES vouch for it.
    """
    address = _normal(peer)
    hops = headers.get("x-forwarded-for", "").split(",")
    while address is not None and hops and _is_trusted(address):
        before = _normal(hops.pop().strip())
        if before is None:
            break
        address = before
    return address


def authenticate(headers: Mapping[str, str], peer: str | None, request_id: str = "") -> Principal:
    """The caller. Raises Unauthenticated, or Forbidden for a disabled user."""
    token = bearer_token(headers)
    principal = authenticate_key(token, client_address(headers, peer), request_id) if token else None
    if principal is None:
        raise unauthenticated()
    return principal


def recall(headers: Mapping[str, str], peer: str | None, request_id: str) -> Principal | None:
    """The caller, if their key proved itself a moment ago and has no limits to be counted in."""
    token = bearer_token(headers)
    known = key_memory.recall(token, client_address(headers, peer), request_id) if token else None
    if known is None or known.key_limit is not None or known.user_limit is not None:
        return None
    return known


def require_scope(principal: Principal, scope: str) -> None:
    """Raises Forbidden when the caller's key was not made for this."""
    if scope not in principal.scopes:
        raise Forbidden(f"This key lacks the scope '{scope}'.")


@lru_cache(1024)
def _normal(address: str | None) -> str | None:
    """The address as written in logs, without port and zone; an IPv4 address inside IPv6 is that
    IPv4 address."""
    text = (address or "").partition("%")[0]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return str(getattr(found, "ipv4_mapped", None) or found)


def _is_trusted(address: str) -> bool:
    return any(ip_address(address) in network for network in trusted_networks(settings.TRUSTED_PROXIES))


@cache
def trusted_networks(proxies: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Raises ValueError for what is neither an address nor a network."""
    return tuple(ip_network(proxy, strict=False) for proxy in proxies)
