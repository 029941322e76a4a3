"""Which network addresses belong to the public internet: the only ones that a user's URL may lead to."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# Of a name's last label: no top-level domain looks so (WHATWG URL, "ends in a number").
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*", re.ASCII)
_TRANSLATED = ip_network("64:ff9b::/96")
"""NAT64 (RFC 6052): an IPv4 address stands in the last 32 bits."""
_ENDS = ("localhost", "local", "internal", "localdomain", "home.arpa", "onion")
"""Names that never lead to the public internet, whatever answers for them."""


def is_public(address: str) -> bool:
    """Whether `address`, which may be an IPv4 address in an IPv6 one, is routed for everybody."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _inside(found)
    if inner is not None:
        return is_public(str(inner))
    if isinstance(found, IPv6Address) and found.is_site_local:
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def is_literal(host: str) -> bool:
    """Whether `host` is an address, or a number that programs read as one (127.1, 2130706433, 0x7f.1)."""
    return ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


def is_private_name(host: str) -> bool:
    """Whether `host` is a name of one machine or one network alone."""
    labels = host.lower().rstrip(".").split(".")
    return any(labels[-len(end) :] == end for end in (end.split(".") for end in _ENDS))


def _inside(found: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a mapped, translated or 6to4 one really leads to."""
    if isinstance(found, IPv4Address):
        return None
    if found in _TRANSLATED:
        return IPv4Address(int(found) & 0xFFFFFFFF)
    return found.ipv4_mapped or found.sixtofour
