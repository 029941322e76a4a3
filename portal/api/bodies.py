"""Request bodies: bytes in, strict JSON out.

Stricter than the standard library: no key twice, no NaN or Infinity, no number that leaves the
range of a float. What it cannot read is a 400, however deep or large.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter

from portal.wire.errors import BadRequest, NotJson
from portal.wire.fields import is_plain_name

_JSON = re.compile(r"application/(?:[\w.-]+\+)?json", re.ASCII)

_BEFORE_VALUES = (b",", b"[", b"{")
_OPENINGS = (b"[", b"{")
MOST_VALUES = 1_048_576
"""As many as there can be in a mebibyte: what is larger holds files in base64, not more to take apart."""
DEEPEST = 256
"""Levels of lists and objects. Python follows about a thousand calls, less what is under way already: a
body that is read must not be too deep for whoever walks through it, writes it, or reads it from a row."""


def check_content_type(content_type: str, encoding: str = "") -> None:
    """JSON, or unsaid. `curl -d` without a header says it is a form, and gets a 415."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind and not _JSON.fullmatch(kind):
        raise NotJson("The body must be JSON: send 'Content-Type: application/json'.")
    if encoding.strip().lower() not in ("", "identity"):
        raise NotJson("Compressed bodies are not supported: send the JSON as it is.")


def read_json(raw: bytes) -> object:
    """Raises BadRequest for anything but one JSON value in UTF-8."""
    if sum(map(raw.count, _BEFORE_VALUES)) > MOST_VALUES:
        raise BadRequest("The body holds too many values.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8 text.") from None
    if not text.strip():
        raise BadRequest("The body is empty: send a JSON object.")
    try:
        value: object = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
    except json.JSONDecodeError as error:
        raise BadRequest(
            f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.") from None
    except ValueError:  # an integer of more digits than Python reads
        raise BadRequest("The body holds a number that is too long.") from None
    if sum(map(raw.count, _OPENINGS)) > DEEPEST and _is_deep(value):
        raise BadRequest("The body is nested too deeply.")
    return value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        holding = [one for one in level if isinstance(one, dict | list)]
        if not holding:
            return False
        level = [inner for one in holding for inner in (one.values() if isinstance(one, dict) else one)]
    return True


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        name = twice if is_plain_name(twice) else None
        raise BadRequest(f"The body names {name or 'one key'} more than once.", param=name)
    return found


def _constant(word: str) -> float:
    raise BadRequest(f"The body is not valid JSON: {word} is not a number in JSON.")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadRequest("The body holds a number that is too large.")
    return number
