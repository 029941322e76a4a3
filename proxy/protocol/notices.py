"""What is said to the reader inside an answer, and how it is taken out of a history again.

Notices (proxy-contract §7) and the footer of sources (§4.5) stand behind the answer, each after a
blank line. Clients send them back as part of the conversation; upstream must not see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from proxy.protocol.delta import Source

MOST_IN_FOOTER = 10
_FOOTER = "---\nSources:\n"
_NOTICE = re.compile(
    r"\s*\[(?:Substituted by Perplexity with [^\[\]\n]{1,200}|Remaining Pro Search: [0-9]{1,9}"
    r"|[^\[\]\n]{0,200}被 ?Perplexity ?替換成[^\[\]\n]{0,200})\]\s*"
)
_FOOTER_SENT = re.compile(r"\s*^---\nSources:\n(?:\[[0-9]{1,3}\] \S+(?:\n|\Z))+", re.MULTILINE)


def substituted(label: str) -> str:
    return f"[Substituted by Perplexity with {label}]"


def remaining(before: int | None, after: int | None) -> str | None:
    """At five and below, and at every fifth use; only when this answer changed the counter."""
    if before is None or after is None or after >= before:
        return None
    return f"[Remaining Pro Search: {after}]" if after <= 5 or after % 5 == 0 else None


def footer(sources: Iterable[Source]) -> str:
    """The list of sources, "" without any: `[n] <address>`, ten at most."""
    listed = [(number, source.url) for number, source in enumerate(sources, 1) if source.url]
    lines = "\n".join(f"[{number}] {url}" for number, url in listed[:MOST_IN_FOOTER])
    return _FOOTER + lines if lines else ""


def appended(parts: Iterable[str]) -> str:
    """What stands behind an answer: every part after a blank line."""
    return "".join(f"\n\n{part}" for part in parts)


def without_notices(text: str) -> str:
    """An assistant message as it was before we added to it."""
    if "[" not in text:
        return text
    return _NOTICE.sub("", _FOOTER_SENT.sub("", text))
