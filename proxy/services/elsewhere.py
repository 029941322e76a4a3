"""What of the caller's is no chat's, and matters to chats all the same: whoever makes it says so here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from portal.services.principal import Principal
from proxy.services.attachments import Enclosure


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`said` gives role and text of each turn of the caller's answer of this id, None without one, and
    raises BadRequest for one that cannot be gone on from; `attached` gives what was shown there. `has_key`
    tells whether an idempotency key was used there."""

    said: Callable[[Principal, UUID], Sequence[Sequence[str]] | None]
    attached: Callable[[UUID], tuple[Enclosure, ...]]
    has_key: Callable[[Principal, str], bool]


NOWHERE = Elsewhere(lambda who, wanted: None, lambda wanted: (), lambda who, key: False)
"""There is nothing else."""
