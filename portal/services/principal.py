"""Who is asking: the one value every service takes to know whom it serves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, and the API key that speaks for them; no key for sessions and commands.

    `scopes` are what this caller may do: a session may do all that a user may.
    """

    user_id: int
    scopes: frozenset[str]
    is_staff: bool = False
    key_id: int | None = None
    key_public_id: str = ""
    address: str | None = None
    request_id: str = ""
