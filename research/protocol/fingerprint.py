"""The fingerprint of a request: same print, same request (agent-api §6.2, SPEC 10.7)."""

from __future__ import annotations

import json
from hashlib import sha256
from unicodedata import normalize

from research.protocol.options import RunRequest


def fingerprint(request: RunRequest, preset: str, time_budget: int | None = None) -> str:
    """SHA-256, in hex, over every option that changes what the run does.

    `preset` is the canonical name, so that `high` and `30m` are one request. Metadata, the
    idempotency key, retries and ignored fields leave the print as it is. `time_budget`, in seconds, is
    given where a door asks for more of it than the preset has.
    """
    options = request.options
    effective = {
        "question": canonical(request.question),
        "preset": preset,
        "instructions": canonical(options.instructions or ""),
        "search_mode": options.search_mode,
        "recency": options.recency,
        "domains": sorted(set(options.domains)),
        "after_date": options.after_date,
        "before_date": options.before_date,
        "reasoning_effort": options.reasoning_effort,
        "model": options.model,
        "language": options.language,
        "previous": request.previous_id.hex if request.previous_id else None,
        **({"attachments": list(options.attachments)} if options.attachments else {}),
        **({"time_budget": time_budget} if time_budget else {}),
    }
    return sha256(json.dumps(effective, sort_keys=True).encode()).hexdigest()


def canonical(text: str) -> str:
    """NFC and trimmed: the same words typed on different keyboards are the same words."""
    return normalize("NFC", text).strip()
