"""Masks secrets in text that people or logs will see.

Patterns, not values: our own keys, upstream keys, bearer headers, session cookies, passwords
inside URLs. What is masked keeps enough of its shape to be recognised.
"""

from __future__ import annotations

import re

MASK = "***"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"sonde_([a-z0-9]{10})_[A-Za-z0-9_-]{20,}"), r"sonde_\1_" + MASK),
    (re.compile(r"\b(pplx|sk|whsec)[-_][A-Za-z0-9_-]{6,}"), r"\1-" + MASK),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 " + MASK),
    (re.compile(r"(?i)((?:__Secure-)?next-auth\.[a-z-]+(?:\.\d+)?)\s*[=:]\s*[^;\s,\"']+"), r"\1=" + MASK),
    (
        re.compile(r"(?i)\b(x-api-key|api[_-]?key|cookie|authorization)(\"?\s*[=:]\s*\"?)[^\s\"',;]{4,}"),
        r"\1\2" + MASK,
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^/\s:@]{0,200}:[^/\s@]{1,200}@"), r"\1" + MASK + "@"),
)
_HINT = re.compile(
    r"(?i)sonde_|pplx|sk[-_]|whsec|bearer|basic|next-auth|api[_-]?key|cookie|authorization|://"
)
"""Without one of these no rule finds anything: most texts are short, and hold none."""


def redact(text: str) -> str:
    """`text` with everything that looks like a credential masked."""
    if not _HINT.search(text):
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
