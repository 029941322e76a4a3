"""Secrets at rest: AES-256-GCM under a ring of keys, bound to the row they stand in.

A sealed text is `<key id>:<base64 of nonce and ciphertext>`. The place (`table:field:row id`) is
authenticated with it, so that a text copied to another row cannot be opened there. The first key
of the ring seals, all open; `manage.py rotate_keys` brings everything under the first.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from dataclasses import dataclass
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db.models import Model

KEY_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}", re.ASCII)
KEY_BYTES = 32
NONCE_BYTES = 12


class SealError(Exception):
    """A sealed text cannot be opened with this ring. One line, without the text."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id; the first seals."""

    keys: tuple[tuple[str, AESGCM], ...]

    @property
    def first_id(self) -> str:
        return self.keys[0][0]

    def seal(self, text: str, place: str) -> str:
        key_id, key = self.keys[0]
        nonce = os.urandom(NONCE_BYTES)
        sealed = key.encrypt(nonce, text.encode(), place.encode())
        return f"{key_id}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, place: str) -> str:
        key_id, _, body = sealed.partition(":")
        key = dict(self.keys).get(key_id)
        if key is None:
            raise SealError(f"{place} needs key {key_id!r}, which SONDE_ENCRYPTION_KEYS does not hold")
        try:
            raw = base64.b64decode(body, validate=True)
            return key.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], place.encode()).decode()
        except (binascii.Error, InvalidTag, ValueError):
            raise SealError(f"{place} does not open: key {key_id!r} is not the one that sealed it") from None


def parse_ring(text: str) -> KeyRing:
    """Read `id:base64,id:base64`. Errors: ValueError, one line that shows no key."""
    keys = [_parse_key(part.strip()) for part in text.split(",") if part.strip()]
    if not keys:
        raise ValueError("holds no key")
    if len({key_id for key_id, _ in keys}) < len(keys):
        raise ValueError("holds two keys of one id")
    return KeyRing(tuple(keys))


def new_key() -> str:
    """A ring of one fresh key, as `parse_ring` reads it."""
    return f"k1:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


@cache
def ring() -> KeyRing:
    """The ring of this installation; the settings have proved that it can be read."""
    return parse_ring(settings.SONDE_ENCRYPTION_KEYS)


def place(row: Model, field: str) -> str:
    """Where a sealed text stands. The row has to have its id already."""
    if row.pk is None:
        raise ValueError("a row without an id cannot hold a sealed text: save it first")
    return place_at(type(row), row.pk, field)


def place_at(model: type[Model], key: object, field: str) -> str:
    """The same of the row of `model` whose primary key is `key`, which need not exist yet."""
    return f"{model._meta.db_table}:{field}:{key}"


def seal(text: str, row: Model, field: str) -> str:
    return ring().seal(text, place(row, field))


def unseal(row: Model, field: str) -> str:
    """The text sealed in `field` of `row`. Errors: SealError."""
    return ring().open(getattr(row, field), place(row, field))


def is_current(sealed: str) -> bool:
    """Whether the first key of the ring sealed it."""
    return sealed.partition(":")[0] == ring().first_id


def _parse_key(part: str) -> tuple[str, AESGCM]:
    key_id, colon, encoded = part.partition(":")
    if not colon or not KEY_ID.fullmatch(key_id):
        raise ValueError("must be id:base64 pairs with commas between, the id of a-z, 0-9, dot and dash")
    try:
        key = base64.b64decode(encoded.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        raise ValueError(f"the key {key_id!r} is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"the key {key_id!r} has {len(key)} bytes, not {KEY_BYTES}")
    return key_id, AESGCM(key)
