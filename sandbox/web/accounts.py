"""Who is asking: a session token tells its account by the words that it is made of.

`sandbox-max-alice` is a healthy Max account; `sandbox-expired-pro-bob` a Pro account whose session is over.
What follows the first dot tells values of one account apart: `sandbox-pro-eve.old` and `sandbox-pro-eve.new`,
and the serial of an account that rotates.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

Tier = Literal["free", "pro", "max"]
Standing = Literal["active", "expired", "rejected", "forbidden", "blocked", "challenged"]
TIERS: tuple[Tier, ...] = get_args(Tier)
STANDINGS: tuple[Standing, ...] = get_args(Standing)
FLAGS = (
    "limited",
    "busy",
    "walled",
    "gated",
    "docs",
    "flaky",
    "restless",
    "chunked",
    "unsolved",
    "halfsolved",
)

_BEGINNING = "sandbox-"
_NUMBERED = re.compile(r"(rotating|slots|left)(\d{0,9})", re.ASCII)
_NUMBERS = {"rotating": 2, "slots": 1, "left": 0}
_QUOTAS: dict[Tier, tuple[int, int]] = {"free": (5, 1), "pro": (600, 20), "max": (5000, 200)}
_NAMESPACE = uuid.UUID("5a9d8c1e-6c0f-4f0e-9c55-5e1f5a9b0c3d")


@dataclass(frozen=True, slots=True)
class Traits:
    """What the words of a name say. `rotating` is after how many newer values an older one is refused,
    `slots` how many answers it may receive at once, `left` how much is left of each quota."""

    tier: Tier = "pro"
    standing: Standing = "active"
    flags: frozenset[str] = frozenset()
    rotating: int | None = None
    slots: int | None = None
    left: int | None = None

    def quota(self) -> tuple[int, int]:
        """(pro, research) at the start of a day."""
        if "limited" in self.flags:
            return 0, 0
        return _QUOTAS[self.tier] if self.left is None else (self.left, self.left)


def _with_word(traits: Traits, word: str) -> Traits:
    for tier in TIERS:
        if word == tier:
            return replace(traits, tier=tier)
    for standing in STANDINGS:
        if word == standing:
            return replace(traits, standing=standing)
    if word in FLAGS:
        return replace(traits, flags=traits.flags | {word})
    if numbered := _NUMBERED.fullmatch(word):
        number = int(numbered[2]) if numbered[2] else _NUMBERS[numbered[1]]
        numbers: dict[str, Any] = {numbered[1]: number}
        return replace(traits, **numbers)
    return traits


@lru_cache(maxsize=4096)
def read_traits(account: str) -> Traits:
    traits = Traits()
    for word in account.removeprefix(_BEGINNING).split("-"):
        traits = _with_word(traits, word)
    return traits


def split_token(token: str) -> tuple[str, int]:
    """(account, serial) of a session token; the account is "" for one that the sandbox never gave out, such
    as one that was put together of two."""
    account, _, serial = token.partition(".")
    if not account.startswith(_BEGINNING) or account == _BEGINNING or token.count(_BEGINNING) > 1:
        return "", 0
    return account, int(serial) if serial.isascii() and serial.isdigit() else 0


def user_id(account: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, account))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `account` is "" for nobody; `unprefixed` is a session under the wrong cookie name,
    which gets the answers of the free tier without a word (perplexity-web §1)."""

    account: str = ""
    traits: Traits = Traits(tier="free")
    token: str = ""
    serial: int = 0
    signed_in: bool = False
    unprefixed: bool = False

    @property
    def tier(self) -> Tier:
        return self.traits.tier if self.signed_in and not self.unprefixed else "free"
