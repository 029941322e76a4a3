"""What the head of a request says: its path, its headers, its query."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl

from portal.wire.errors import BadRequest

REST = ":path}"
RESPONSES = "/responses"


def usual(path: str) -> str:
    """The path that a client means whose base URL has a `/v1` too many, as Perplexity's SDK makes of one, or
    too few, as OpenAI's does (perplexity-api §6)."""
    if path.startswith("/v1/v1/"):
        return path.removeprefix("/v1")
    return f"/v1{path}" if path == RESPONSES or path.startswith(f"{RESPONSES}/") else path


def fits(pattern: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """`{name}` stands for one part of a path, `{name:path}` at its end for all the rest."""
    if pattern[-1].endswith(REST) and len(asked) > len(pattern):
        asked = _folded(pattern, asked)
    return len(pattern) == len(asked) and all(
        part == word or (part.startswith("{") and word != "")
        for part, word in zip(pattern, asked, strict=True)
    )


def _folded(pattern: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    last = len(pattern) - 1
    return (*asked[:last], "/".join(asked[last:]))


def parts_of(path: str, asked: str) -> dict[str, str]:
    pattern = path.split("/")
    pairs = zip(pattern, _folded(pattern, asked.split("/")), strict=True)
    return {part[1:-1].removesuffix(":path"): word for part, word in pairs if part.startswith("{")}


def headers_of(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """By lower-case name; what is sent twice is joined, as HTTP has it."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), _header_text(value)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _header_text(value: bytes) -> str:
    """UTF-8 where it is (an idempotency key may hold any letters), else as HTTP had it once."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def query_of(raw: bytes) -> dict[str, str]:
    """The last value of each name. Raises BadRequest for hundreds of them."""
    try:
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise BadRequest("The query has too many parameters.") from None
