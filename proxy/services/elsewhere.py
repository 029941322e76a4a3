"""What of the caller's is no chat's, and matters to chats all the same: whoever makes it says so here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from portal.services.principal import Principal


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`said` gives role and text of each turn of the caller's answer of this id, None without one, and
    raises BadRequest for one that cannot be gone on from. `has_key` tells whether an idempotency key was
    used there."""

    said: Callable[[Principal, UUID], Sequence[Sequence[str]] | None]
    has_key: Callable[[Principal, str], bool]


NOWHERE = Elsewhere(lambda who, wanted: None, lambda who, key: False)
"""There is nothing else."""
