"""The messages of a Chat Completions request: roles, text, and what is attached (proxy-contract §§5, 11).

An attachment leaves the marker `[Attached file: <name>]` in the text; its bytes never become text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import unquote, urlsplit

from portal.wire.errors import BadRequest
from proxy.protocol.conversation import Role

_ROLES = ("system", "developer", "user", "assistant")
_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
_UNSOUND = re.compile("[\0\ud800-\udfff]")
_UNFIT_IN_NAME = re.compile(r"[\x00-\x1f\x7f\[\]/\\]+")
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a part points at: exactly one of `data`, `file_id` and `url` is set.

    `data` is a data URL, or base64 whose type `name` tells.
    """

    name: str
    data: str = ""
    file_id: str = ""
    url: str = ""
    is_picture: bool = False
    """As its sender calls it: what an address leads to may be anything."""

    @property
    def marker(self) -> str:
        return f"[Attached file: {self.name}]"

    @property
    def fingerprint(self) -> str:
        """64 hex digits that tell what is attached from everything else."""
        held = f"{self.data}\n{self.file_id}\n{self.url}"
        return hashlib.sha256(held.encode("utf-8", "replace")).hexdigest()

    @property
    def reference(self) -> str:
        """The same for people and rows: an id or an address where there is one."""
        return self.file_id or self.url or f"sha256:{self.fingerprint}"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    text: str
    attachments: tuple[Attachment, ...] = ()


def _bad(message: str, param: str = "messages") -> BadRequest:
    return BadRequest(message, param=param)


def read_message(message: object) -> ChatMessage:
    """One that holds words, not calls; raises `BadRequest` with `param` messages, content or input."""
    if not isinstance(message, dict):
        raise _bad("Each message must be an object.")
    role = message.get("role")
    if role == "function" or message.get("function_call"):
        raise _bad("Messages with function_call are not supported: use tool_calls and the role tool.")
    if role not in _ROLES:
        raise _bad(f"The role of a message must be one of: {', '.join(_ROLES)}.")
    content = message.get("content")
    if content is None:
        if role != "assistant":
            raise _bad("Each message needs its content.")
        content = ""
    text, attachments = _content(content)
    if attachments and role != "user":
        raise _bad("Only user messages can have attachments.", "input")
    return ChatMessage(cast(Role, role), text, attachments)


def text_of(content: object) -> str:
    """Of a content that can have nothing attached. Raises `BadRequest`."""
    text, attachments = _content(content)
    if attachments:
        raise _bad("Only user messages can have attachments.", "input")
    return text


def _content(content: object) -> tuple[str, tuple[Attachment, ...]]:
    if isinstance(content, str):
        return sound(content), ()
    if not isinstance(content, list):
        raise _bad("content must be a string or a list of parts.", "content")
    texts: list[str] = []
    attachments: list[Attachment] = []
    for part in content:
        if not isinstance(part, dict):
            raise _bad("Each part of a content must be an object.", "content")
        kind = part.get("type")
        if kind in ("image_url", "file"):
            attachment = read_image(part) if kind == "image_url" else read_file(part)
            attachments.append(attachment)
            texts.append(attachment.marker)
            continue
        member = _TEXT_PARTS.get(kind) if isinstance(kind, str) else None
        text = part.get(member) if member else None
        if not isinstance(text, str):
            raise _bad("A part of a content is of an unknown type, or its text is no string.", "content")
        texts.append(sound(text))
    return " ".join(texts), tuple(attachments)


def sound(text: str) -> str:
    """Text that UTF-8 and a database can carry."""
    if _UNSOUND.search(text):
        raise _bad("content holds a NUL character or a lone surrogate.", "content")
    return text


def read_image(part: Mapping[str, object]) -> Attachment:
    value = part.get("image_url")
    url = value.get("url") if isinstance(value, dict) else value
    if not isinstance(url, str) or not url:
        raise _bad("An image_url part needs the address of its image.", "input")
    return replace(_from_url(url, "image"), is_picture=True)


def read_file(part: Mapping[str, object]) -> Attachment:
    value = part.get("file")
    given = {
        name: text
        for name in ("file_data", "file_id", "file_url")
        if isinstance(value, dict) and isinstance(text := value.get(name), str) and text
    }
    if not isinstance(value, dict) or len(given) != 1:
        raise _bad("A file part needs exactly one of file_data, file_id and file_url.", "input")
    filename = value.get("filename")
    name = shown_name(filename) if isinstance(filename, str) else ""
    if "file_id" in given:
        return Attachment(name or shown_name(given["file_id"]), file_id=given["file_id"])
    if "file_url" in given:
        return _from_url(given["file_url"], name or "file", named=bool(name))
    return Attachment(name or "file", data=given["file_data"])


def _from_url(url: str, name: str, *, named: bool = False) -> Attachment:
    if url[:5].lower() == "data:":
        return Attachment(name, data=url)
    if not named:
        name = shown_name(_last_segment(url)) or name
    return Attachment(name, url=url)


def _last_segment(url: str) -> str:
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return unquote(path.rpartition("/")[2])


def shown_name(text: str) -> str:
    """A name that can stand in the marker."""
    shown = _UNFIT_IN_NAME.sub(" ", text[:1000]).encode("utf-8", "ignore").decode().strip()
    return shown[:_LONGEST_NAME]
