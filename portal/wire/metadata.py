"""`metadata` of a request: what its sender pins to an object, echoed and never read (openai-compat §3.1)."""

from __future__ import annotations

from portal.wire.fields import Fields, is_plain_name

MOST_PAIRS = 16
LONGEST_KEY = 64
LONGEST_VALUE = 512


def read_metadata(body: Fields) -> dict[str, str]:
    """At most 16 pairs of strings, keys of 1 to 64 characters, values of up to 512. Raises BadRequest."""
    pairs = body.inner("metadata").values
    if len(pairs) > MOST_PAIRS:
        raise body.refuse("metadata", f"must have at most {MOST_PAIRS} pairs")
    for key in pairs:
        if not 1 <= len(body.check_text("metadata", key, len(key))) <= LONGEST_KEY:
            raise body.refuse("metadata", f"must have keys of 1 to {LONGEST_KEY} characters")
    return {key: _value(body, key, value) for key, value in pairs.items()}


def _value(body: Fields, key: str, value: object) -> str:
    return body.check_text(f"metadata.{key}" if is_plain_name(key) else "metadata", value, LONGEST_VALUE)
