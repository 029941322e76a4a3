"""A question for deep research at a web session, as the service takes it (perplexity-web §4)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from proxy.protocol.web_request import Recency

MOST_CHARACTERS = 96_000
"""Characters of `query_str` (perplexity-web §4.2)."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """`key` is the caller's name for it, the same at every attempt. `question` continues the thread of
    `follows`, an earlier research, where that can be; `whole` says everything."""

    key: UUID
    question: str
    whole: str
    sources: tuple[str, ...] = ("web",)
    language: str = "en-US"
    recency: Recency | None = None
    follows: UUID | None = None
    has_attachments: bool = False
    """Something is kept for `key` that goes with it."""


def query_document(query: str, instructions: str = "", history: Sequence[Mapping[str, str]] = ()) -> str:
    """`query_str`: plain text where there is only a question; else a JSON document (§4.2)."""
    document: dict[str, object] = {"query": query}
    if instructions:
        document["instructions"] = [instructions]
    if history:
        document["history"] = list(history)
    return query if len(document) == 1 else json.dumps(document, ensure_ascii=False)
