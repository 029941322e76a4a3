"""Web addresses: which ones may be shown as links, and when two of them are the same page.

Only `http` and `https`, without a user name or password, without control characters, at most
`LONGEST` characters. Everything here is total: any string goes in, nothing raises.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from hashlib import sha256

LONGEST = 2048
SCHEME = "[hH][tT][tT][pP][sS]?://"
"""Spelt out: without regard to case, a pattern would take the long s for an s too."""
_PARTS = re.compile(rf"({SCHEME})([^/?#]*+)([^?#]*+)(.*+)", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[^:\[\]@]{1,253})(?::(\d{0,8}))?", re.ASCII)
_FORBIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff<>\"\\]"
)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})|[^!-~]|%")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DEFAULT_PORT = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str
    host: str
    """Lower case ASCII, IDN labels as `xn--…`."""
    port: str
    """"" for the scheme's own."""
    path: str
    rest: str
    """Query and fragment with their `?` and `#`."""


def linkable(raw: str) -> str | None:
    """`raw` as it may be put in a link, its spaces escaped; None when it may not.

    The spelling stays the author's: only what two addresses are compared by is normalised.
    """
    url = _prepared(raw)
    return url if _read(url) else None


def normalise(raw: str) -> str | None:
    """The key by which two addresses are one page; None for what is not `linkable`. Idempotent.

    Equal are: letter case of scheme and host, both forms of an IDN, a dot after the host, the
    scheme's own port given or not, an empty path and `/`, equivalent percent escapes. Kept apart
    are `http` and `https`, and everything in path, query and fragment, tracking parameters too:
    only their server knows what they mean.
    """
    address = _read(_prepared(raw))
    if address is None:
        return None
    port = f":{address.port}" if address.port else ""
    path = _escaped(address.path) or "/"
    place = f"{address.scheme}://{address.host}{port}"
    key = f"{place}{path}{_escaped(address.rest)}"
    # Escapes make an address up to twelve times as long, and a key has to be one itself.
    return key if len(key) <= LONGEST else f"{place}/#{sha256(key.encode()).hexdigest()}"


def host_label(url: str) -> str:
    """The host as people name it: without `www.`, IDN labels as written; "" for no address."""
    url = _prepared(url)
    if _read(url) is None:
        return ""
    authority = url.split("/", 3)[2].split("?")[0].split("#")[0]
    return re.sub(r":\d*$", "", authority).lower().rstrip(".").removeprefix("www.")


def _prepared(raw: str) -> str:
    return raw.strip().replace(" ", "%20")


def _read(url: str) -> _Address | None:
    if len(url) > LONGEST or _FORBIDDEN.search(url):
        return None
    parts = _PARTS.fullmatch(url)
    authority = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if not parts or not authority:
        return None
    scheme = parts[1].lower().removesuffix("://")
    host = authority[1].lower() if authority[1].startswith("[") else _ascii_host(authority[1])
    port = str(int(authority[2])) if authority[2] else ""
    if not host or (port and int(port) > 65535):
        return None
    return _Address(scheme, host, "" if port == _DEFAULT_PORT[scheme] else port, parts[3], parts[4])


def _ascii_host(host: str) -> str | None:
    """`host` in lower case ASCII, or None. Compatibility forms fold as browsers fold them (UTS 46)."""
    folded = host
    if not host.isascii():
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", host).lower()).replace("。", ".")
    labels = [_ascii_label(label) for label in folded.lower().removesuffix(".").split(".")]
    name = ".".join(labels)
    return name if all(labels) and len(name) <= 253 else None


def _ascii_label(label: str) -> str:
    """One label of a host name; "" when it cannot be one."""
    if len(label) > 63:
        return ""
    if not label.isascii():
        label = "xn--" + label.encode("punycode").decode("ascii").lower()
    return label if _LABEL.fullmatch(label) else ""


def _escaped(part: str) -> str:
    """`part` with one spelling for every escape: upper case, and none where none is needed."""
    return _ESCAPE.sub(_one_escape, part)


def _one_escape(match: re.Match[str]) -> str:
    if match[1]:
        code = int(match[1], 16)
        return chr(code) if code in _UNRESERVED else f"%{code:02X}"
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8"))
