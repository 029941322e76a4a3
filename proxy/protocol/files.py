"""Files as the OpenAI API shows them: ids, names, purposes, lists (proxy-contract §10, openai-compat §4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from portal.wire.errors import BadRequest, NotFound

Order = Literal["asc", "desc"]

LARGEST_FILE = 20 * 1024 * 1024
"""Bytes."""
PURPOSES = ("user_data", "assistants", "vision")
LONGEST_NAME = 255
"""Bytes in UTF-8."""
LONGEST_LIST = 10_000
_ID = re.compile(r"file-([0-9a-f]{32})", re.ASCII)
# What cannot be seen, ends lines, or turns the reading direction of what follows, which hides an ending.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileView:
    """One file; times in UTC, `size` in bytes."""

    id: UUID
    filename: str
    purpose: str
    size: int
    created_at: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Which page of a list is wanted; `after` is the last file of the page before."""

    limit: int = LONGEST_LIST
    order: Order = "desc"
    after: UUID | None = None
    purpose: str = ""


def file_id(identity: UUID) -> str:
    return f"file-{identity.hex}"


def parse_file_id(text: str) -> UUID | None:
    """None for what is no id of a file of ours: it is answered like an unknown one."""
    match = _ID.fullmatch(text)
    return UUID(hex=match[1]) if match else None


def no_such_file() -> NotFound:
    return NotFound("No file with this id exists.", param="file_id")


def check_filename(name: str) -> str:
    """`name`, when it can be one. Raises BadRequest."""
    if not name or name in (".", ".."):
        raise _bad("The file needs a name.")
    if _UNSEEN.search(name):
        raise _bad("The name of the file has characters that cannot be seen.")
    if "/" in name or "\\" in name:
        raise _bad("The name of the file must not have slashes: send it without its folder.")
    if len(name.encode()) > LONGEST_NAME:
        raise _bad(f"The name of the file is longer than {LONGEST_NAME} bytes.")
    return name


def check_purpose(purpose: str) -> str:
    """Raises BadRequest."""
    if purpose not in PURPOSES:
        raise _bad(f"The purpose of a file must be one of: {', '.join(PURPOSES)}.")
    return purpose


def parse_listing(query: Mapping[str, str]) -> Listing:
    """Raises BadRequest for a parameter that makes no sense."""
    limit = query.get("limit", str(LONGEST_LIST))
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 5 and 1 <= int(limit) <= LONGEST_LIST):
        raise BadRequest(f"limit must be a whole number from 1 to {LONGEST_LIST}.", param="limit")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest("order must be asc or desc.", param="order")
    purpose = query.get("purpose", "")
    if purpose and purpose not in PURPOSES:
        raise BadRequest(f"purpose must be one of: {', '.join(PURPOSES)}.", param="purpose")
    after = query.get("after", "")
    last = parse_file_id(after)
    if after and last is None:
        raise no_such_cursor()
    return Listing(int(limit), "asc" if order == "asc" else "desc", last, purpose)


def no_such_cursor() -> BadRequest:
    return BadRequest("after must be the id of a file of the list.", param="after")


def build_file(file: FileView) -> dict[str, object]:
    body: dict[str, object] = {
        "id": file_id(file.id),
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created_at.timestamp()),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }
    if file.expires_at is not None:
        body["expires_at"] = int(file.expires_at.timestamp())
    return body


def build_list(files: Sequence[FileView], *, has_more: bool) -> dict[str, object]:
    data = [build_file(file) for file in files]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def build_deleted(identity: UUID) -> dict[str, object]:
    return {"id": file_id(identity), "object": "file", "deleted": True}


def _bad(message: str) -> BadRequest:
    return BadRequest(message, param="file")
