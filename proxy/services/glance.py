"""What rounds have seen of the pool, the models and the purses: for half a second, and never the last word.

A question that finds all it needs here may be put to the upstream while its own round is under way
(ahead.py). A key that proved itself is believed for as long (portal/services/key_memory).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Generic, TypeVar

from proxy.models.accounts import WebAccount
from proxy.protocol.session import Tier
from proxy.services.catalog import Priced

LIFE_SECONDS = 0.5
MOST = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class _Known(Generic[Key, Value]):
    """Written by the rounds' thread, read by event loops: each step is a single one of a dict."""

    entries: dict[Key, tuple[float, Value]] = field(default_factory=dict)

    def keep(self, values: Mapping[Key, Value], at: float) -> None:
        if len(self.entries) >= MOST:
            self.entries.clear()
        self.entries.update({key: (at, value) for key, value in values.items()})

    def get(self, key: Key) -> Value | None:
        at, value = self.entries.get(key, (0.0, None))
        return value if at and time.monotonic() - at < LIFE_SECONDS else None


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool's accounts, how many answers each is giving, and the highest tier among them."""

    accounts: tuple[WebAccount, ...]
    loads: Mapping[int, int]
    tier: Tier


_pool: _Known[str, Pool] = _Known()
_models: _Known[str, Priced] = _Known()
_purses: _Known[int, Decimal] = _Known()
_forgot_at = 0.0


def moment() -> float:
    """To be taken before the database is asked: what it says is true of then."""
    return time.monotonic()


def keep(pool: Pool, models: Mapping[str, Priced], purses: Mapping[int, Decimal], asked_at: float) -> None:
    """What a round left behind; nothing, if an account got into trouble since. `purses` are by user."""
    if asked_at <= _forgot_at:
        return
    _pool.keep({"": pool}, asked_at)
    _models.keep(models, asked_at)
    _purses.keep(purses, asked_at)


def pool() -> Pool | None:
    return _pool.get("")


def priced(model: str) -> Priced | None:
    return _models.get(model)


def purse(user_id: int) -> Decimal | None:
    """What a user's own purses hold."""
    return _purses.get(user_id)


def forget() -> None:
    """An account is not what it was: of all of them nothing is known until the next round."""
    global _forgot_at
    _forgot_at = time.monotonic()
    _pool.entries.clear()
