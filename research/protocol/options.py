"""A research request as every door hands it to `research.services.start`: parsed, typed, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from proxy.protocol.chat_messages import Attachment
from research.protocol.outcome import Options


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the caller wants, whatever door it came through.

    `preset` is the caller's own word, canonical or alias; None asks for the default preset.
    """

    question: str
    options: Options = field(default_factory=Options)
    attached: tuple[Attachment, ...] = ()
    """What `options.attachments` name, as it came."""
    preset: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    previous_id: UUID | None = None
    """The run that this one follows up."""
    retry_count: int = 0
    """`x-stainless-retry-count`: an SDK that resends a create without a key says so (agent-api §6.3)."""
    least_budget: int = 0
    """Seconds that the run may take at least, whatever its preset says (SPEC 10.10)."""
    ignored: tuple[str, ...] = ()
    """Known request fields that no backend honours; told in the answer (SPEC 10.9)."""
