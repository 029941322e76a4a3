"""Who did what to which object, when. Secrets never (SPEC 2.6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from portal.models.audit import AuditEntry
from portal.services.principal import Principal
from portal.wire.redact import redact

ACTION = re.compile(r"[a-z_]+(\.[a-z_]+)+")
SECRET_NAMES = re.compile(r"secret|password|token|cookie|digest|authorization", re.IGNORECASE)


def record(principal: Principal | None, action: str, target: str, **detail: object) -> None:
    """Write one entry, in the caller's transaction; `principal` is None for the system itself.

    `action` is dotted (`key.revoked`). Text that looks like a credential is masked; a detail that
    is named like one is a mistake of the caller: ValueError.
    """
    row(principal, action, target, **detail).save(force_insert=True)


def row(principal: Principal | None, action: str, target: str, **detail: object) -> AuditEntry:
    """The same entry, to be written by the caller."""
    return AuditEntry(**values(principal, action, target, **detail))


def values(principal: Principal | None, action: str, target: str, **detail: object) -> dict[str, Any]:
    """The same as what the columns of the entry hold."""
    if not ACTION.fullmatch(action):
        raise ValueError(f"not a dotted action: {action}")
    return {
        "actor_id": principal.user_id if principal else None,
        "key_id": principal.key_public_id if principal else "",
        "address": principal.address if principal else None,
        "request_id": principal.request_id if principal else "",
        "action": action,
        "target": redact(target)[:120],
        "detail": _clean(detail),
    }


def _clean(value: object) -> Any:
    """The value as JSON, masked."""
    if isinstance(value, Mapping):
        return {_harmless(str(name)): _clean(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(part) for part in value]
    if value is None or isinstance(value, bool | int):
        return value
    return redact(str(value))


def _harmless(name: str) -> str:
    if SECRET_NAMES.search(name):
        raise ValueError(f"an audit entry cannot hold {name}")
    return name
