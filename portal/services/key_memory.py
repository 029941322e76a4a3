"""Keys that proved themselves a moment ago, so that a caller of hundreds costs one look at the database.

A key that is revoked stops at once in the process that revokes it, and in every other when its moment
here is over: SPEC 10.19 allows a second. Only what a request cannot change is remembered; a key that is
bound to addresses is not. Keys themselves are never kept: they are found by a digest that only this
process can make.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b

from django.utils import timezone

from portal.services.principal import Principal

LIFE_SECONDS = 0.5
MOST = 10_000

_pepper = os.urandom(32)


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    expires_at: datetime | None
    until: float


_known: dict[bytes, _Known] = {}
_forgot_at = 0.0


def moment() -> float:
    """To be taken before the database is asked: what is true of a key is true of then."""
    return time.monotonic()


def remember(text: str, principal: Principal, expires_at: datetime | None, asked_at: float) -> None:
    """What the database said at `asked_at`; nothing, if something was revoked since."""
    if asked_at <= _forgot_at:
        return
    if len(_known) >= MOST:
        _known.clear()
    _known[_place(text)] = _Known(principal, expires_at, asked_at + LIFE_SECONDS)


def recall(text: str, address: str | None, request_id: str) -> Principal | None:
    """Whom the key speaks for, as of a moment ago; None for whoever has to be looked up."""
    known = _known.get(_place(text))
    if known is None or known.until < time.monotonic():
        return None
    if known.expires_at is not None and known.expires_at <= timezone.now():
        return None
    return replace(known.principal, address=address, request_id=request_id)


def forget_all() -> None:
    """Whoever calls next is looked up, and whoever is being looked up now is not remembered."""
    global _forgot_at
    _forgot_at = time.monotonic()
    _known.clear()


def _place(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), key=_pepper, digest_size=16).digest()
