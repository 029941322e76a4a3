"""Reading JSON that promises nothing: each member may be absent, null or of another type.

The upstream is private and undocumented (perplexity-web, preface), so whatever has not the
expected type counts as absent, and no value read here can raise.
"""

from __future__ import annotations

import re

from portal.wire.redact import redact

LONGEST_DETAIL = 800
"""Characters of an upstream's own words that may leave the house (SPEC 10.8)."""
_SPACES = re.compile(r"[\s\x00-\x1f\x7f]+")


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def object_of(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def items_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def objects_of(value: object) -> list[dict[str, object]]:
    return [item for item in items_of(value) if isinstance(item, dict)]


def whole_of(value: object) -> int | None:
    """A whole number; JSON's `true` is none, 3.0 is one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def detail_of(*candidates: object) -> str:
    """The first sentence among the candidates, masked, on one line, `LONGEST_DETAIL` at most."""
    for candidate in candidates:
        words = _SPACES.sub(" ", text_of(candidate)[: 4 * LONGEST_DETAIL]).strip()
        if words:
            return redact(words)[:LONGEST_DETAIL]
    return ""
