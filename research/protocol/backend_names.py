"""What the backends are called, for people."""

from __future__ import annotations

NAMES = {
    "agent": "Perplexity’s Agent API",
    "sonar": "Perplexity’s Sonar API",
    "sonar-sdk": "Perplexity’s Sonar API (second path)",
    "web": "Perplexity’s own site",
    "responses": "the Responses endpoint",
}


def backend_name(name: str) -> str:
    return NAMES.get(name, name or "the upstream")
