"""The session cookie, whole or in numbered parts (perplexity-web §3)."""

from __future__ import annotations

from starlette.requests import Request

NAME = "__Secure-next-auth.session-token"
UNPREFIXED = "next-auth.session-token"
_LIFE = "Path=/; Expires=Wed, 30 Dec 2026 00:00:00 GMT; Secure; HttpOnly; SameSite=Lax"
_GONE = "Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax"
_PART = 12  # so short that test tokens come in several parts


def read_cookies(request: Request) -> dict[str, str]:
    """All cookies of all `Cookie` lines, verbatim; the last of a name wins."""
    pairs = (
        pair.strip().partition("=")
        for line in request.headers.getlist("cookie")
        for pair in line.split(";")
        if "=" in pair
    )
    return {name: value for name, _, value in pairs}


def _number(name: str, base: str) -> int | None:
    """The place of a cookie in the token of that name; None when it is another cookie."""
    if name == base:
        return -1
    tail = name.removeprefix(base + ".")
    return int(tail) if tail != name and tail.isascii() and tail.isdigit() else None


def session_token(cookies: dict[str, str], base: str = NAME) -> str:
    """The token as NextAuth puts it together: the plain cookie, then all numbered ones; "" without any.

    A client that keeps parts beside a plain value so gets a token that nobody knows.
    """
    places = {name: place for name in cookies if (place := _number(name, base)) is not None}
    return "".join(cookies[name] for name in sorted(places, key=lambda name: places[name]))


def set_whole(token: str, cookies: dict[str, str]) -> list[str]:
    """`Set-Cookie` lines for one cookie; parts that the client holds are taken away."""
    stale = [name for name in cookies if (_number(name, NAME) or -1) >= 0 or name == f"{NAME}.0"]
    return [f"{NAME}={token}; {_LIFE}", *(f"{name}=; {_GONE}" for name in stale)]


def set_parts(token: str, cookies: dict[str, str]) -> list[str]:
    """`Set-Cookie` lines for at least two parts; a plain cookie that the client holds is taken away."""
    size = min(_PART, max(1, len(token) // 2))
    parts = [token[start : start + size] for start in range(0, len(token), size)]
    lines = [f"{NAME}.{number}={part}; {_LIFE}" for number, part in enumerate(parts)]
    stale = [name for name in cookies if (_number(name, NAME) or -1) >= len(parts)]
    gone = [NAME] if NAME in cookies else []
    return lines + [f"{name}=; {_GONE}" for name in (*gone, *stale)]
