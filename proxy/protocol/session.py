"""Web sessions: how a cookie comes in, how it changes, what the session check says.

The session is one cookie, `__Secure-next-auth.session-token`; a long token may be split into parts
`.0`, `.1`, … (perplexity-web §3). A jar is a plain mapping of cookie names to values: pure data,
to be sealed by whoever stores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.tolerant import object_of, objects_of, text_of
from proxy.protocol.verdicts import judge
from proxy.protocol.web_frame import read_json

Jar = Mapping[str, str]
Tier = Literal["free", "pro", "max"]

TOKEN = "__Secure-next-auth.session-token"
_BARE_NAME = TOKEN.removeprefix("__Secure-")
"""Sent under this name a session silently gets free answers (perplexity-web §1): it is renamed."""
LONGEST_IMPORT = 64 * 1024
_PART = re.compile(re.escape(TOKEN) + r"\.([0-9]{1,2})")
_ANYWHERE = re.compile(
    rf"((?:__Secure-)?{re.escape(_BARE_NAME)}(?:\.[0-9]{{1,2}})?)[\"']?\s*[=:\s]\s*[\"']?([^\s;,\"']+)"
)
"""The token's name and its value, or those of a part, in whatever a tool made of a cookie."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]{1,16384}")
_SHORTEST_TOKEN = 16
_GONE = re.compile(r"max-age\s*=\s*(?:0|-[0-9]+)\s*$|expires\s*=.*\b(?:1970|1969)\b", re.IGNORECASE)


class NotASession(ValueError):
    """What was pasted holds no session token. The message never repeats any of it."""


def import_jar(text: str) -> Jar:
    """A jar out of what an operator pastes: a bare token, a `Cookie:` line, JSON, or text with the token
    behind its name: rows of the developer tools, a cookies.txt, a request copied as cURL.

    JSON is an object of names and values, such an object under `cookies`, an exported list of
    `{name, value}`, or `{"session_token": …}`. Raises `NotASession`.
    """
    pasted = text.strip()
    if len(pasted) > LONGEST_IMPORT:
        raise NotASession("This is too long for a cookie.")
    if pasted[:1] in ("{", "["):
        cookies = _from_json(pasted)
    elif _BARE_NAME in pasted:
        cookies = _from_line(pasted)
    else:
        cookies = {TOKEN: pasted.strip("\"'")}
    return _checked(cookies)


def _from_line(pasted: str) -> dict[str, str]:
    line = re.sub(r"(?i)\Acookie:\s*", "", pasted)
    cookies: dict[str, str] = {}
    for pair in line.split(";"):
        name, equals, value = pair.partition("=")
        if equals:
            cookies[name.strip()] = value.strip().strip("\"'")
    return cookies if token_of(_sound(cookies)) else dict(_ANYWHERE.findall(pasted))


def _from_json(pasted: str) -> dict[str, str]:
    value = read_json(pasted)
    if isinstance(value, list):
        return {text_of(item.get("name")): text_of(item.get("value")) for item in objects_of(value)}
    given = object_of(value)
    nested = given.get("cookies")
    if isinstance(nested, list):
        return {text_of(item.get("name")): text_of(item.get("value")) for item in objects_of(nested)}
    if isinstance(nested, dict):
        given = nested
    elif "session_token" in given:
        return dict(import_jar(text_of(given["session_token"])))
    return {name: text_of(value).strip() for name, value in given.items()}


def _checked(cookies: Mapping[str, str]) -> Jar:
    jar = _sound(cookies)
    token = token_of(jar)
    if not token:
        raise NotASession(f"There is no cookie {TOKEN} in this.")
    if len(token) < _SHORTEST_TOKEN:
        raise NotASession("This is too short for a session token.")
    return jar


def _sound(cookies: Mapping[str, str]) -> Jar:
    """Those that a header can carry, the token under its full name."""
    renamed: dict[str, str] = {}
    for name, value in cookies.items():
        secure = f"__Secure-{name}" if name.startswith(_BARE_NAME) else name
        if secure not in cookies or secure == name:
            renamed[secure] = value
    return {
        name: value for name, value in renamed.items() if _NAME.fullmatch(name) and _VALUE.fullmatch(value)
    }


def token_of(jar: Jar) -> str:
    """The token, its parts joined in numeric order; "" without one."""
    if plain := jar.get(TOKEN):
        return plain
    parts = sorted((int(found[1]), value) for name, value in jar.items() if (found := _PART.fullmatch(name)))
    if [number for number, _ in parts] != list(range(len(parts))):
        return ""
    return "".join(value for _, value in parts)


def cookie_header(jar: Jar) -> str:
    """The `Cookie` header: explicit, since `__Secure-` cookies never leave a jar over plain HTTP."""
    return "; ".join(f"{name}={value}" for name, value in jar.items())


def merge(jar: Jar, set_cookies: Iterable[str]) -> Jar:
    """`jar` after the `Set-Cookie` lines of an answer: new values win, other names are kept.

    Only after a session check that found a user: any other answer may take the token away. A plain
    token drops the parts of the last one, and parts drop the plain one.
    """
    merged = dict(jar)
    fresh: dict[str, str] = {}
    for line in set_cookies:
        pair, *attributes = line.split(";")
        name, equals, value = (piece.strip() for piece in pair.partition("="))
        if not (equals and _NAME.fullmatch(name)):
            continue
        value = value.strip('"')
        if not value or any(_GONE.match(attribute.strip()) for attribute in attributes):
            merged.pop(name, None)
            fresh.pop(name, None)
        elif _VALUE.fullmatch(value):
            fresh[name] = value
    _drop_stale_token(merged, fresh)
    return merged | fresh


def _drop_stale_token(merged: dict[str, str], fresh: Mapping[str, str]) -> None:
    in_parts = any(_PART.fullmatch(name) for name in fresh)
    if TOKEN in fresh or in_parts:
        for name in [name for name in merged if _PART.fullmatch(name) or name == TOKEN]:
            del merged[name]


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whose session it is. `tier` is None where the upstream does not say."""

    user_id: str
    email: str
    tier: Tier | None


def read_session(status: int, headers: Mapping[str, str], body: bytes) -> SignedIn | Fault:
    """The answer of `GET /api/auth/session`: a dead token gets a 200 and no `user`."""
    fault = judge(status, headers, body)
    if fault:
        return fault
    value = read_json(body)
    if not isinstance(value, dict):
        return Fault(FaultKind.BROKEN)
    user = value.get("user")
    if not user:
        return Fault(FaultKind.SIGNED_OUT)
    person = object_of(user)
    return SignedIn(text_of(person.get("id")), text_of(person.get("email")), _tier(person))


def _tier(person: Mapping[str, object]) -> Tier | None:
    """`subscription_tier` while the subscription runs, else what `payment_tier` says."""
    status = person.get("subscription_status")
    for name in ("subscription_tier", "payment_tier"):
        told = text_of(person.get(name)).lower()
        if told in ("pro", "max") and status in (None, "active", "trialing"):
            return "max" if told == "max" else "pro"
        if told == "free":
            return "free"
    return "free" if status == "none" else None
