"""Identifiers on the wire: responses, messages, API keys, request ids.

A public id is a prefix and 32 lower-case hex digits (SPEC 10.12). Whatever has another form
names nothing: parsers return None and the doors answer as for an unknown id.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from uuid import UUID

RESPONSE_ID = re.compile(r"resp_([0-9a-f]{32})", re.ASCII)
API_KEY = re.compile(r"sonde_([a-z0-9]{10})_([A-Za-z0-9_-]{43})", re.ASCII)
REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def response_id(run: UUID) -> str:
    return f"resp_{run.hex}"


def message_id(run: UUID) -> str:
    return f"msg_{run.hex}"


def parse_response_id(text: str) -> UUID | None:
    match = RESPONSE_ID.fullmatch(text)
    return UUID(hex=match[1]) if match else None


@dataclass(frozen=True, slots=True)
class KeyText:
    """An API key taken apart: the public id finds the row, the secret proves it."""

    public_id: str
    secret: str

    def __str__(self) -> str:
        return f"sonde_{self.public_id}_{self.secret}"


def new_key() -> KeyText:
    public_id = "".join(secrets.choice(ALPHABET) for _ in range(10))
    return KeyText(public_id, secrets.token_urlsafe(32))


def parse_key(text: str) -> KeyText | None:
    match = API_KEY.fullmatch(text)
    return KeyText(match[1], match[2]) if match else None


def new_request_id() -> str:
    return f"req_{secrets.token_hex(16)}"


def accept_request_id(text: str | None) -> str:
    """The caller's own request id when it is harmless to log and echo, else a new one."""
    return text if text and REQUEST_ID.fullmatch(text) else new_request_id()
