"""Reading a multipart form as a storage service does: part by part, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message


@dataclass(frozen=True, slots=True)
class Field:
    """One part. `filename` is None for a text part."""

    name: str
    filename: str | None
    content_type: str | None
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


def _field(part: bytes) -> Field | None:
    head, found, content = part.partition(b"\r\n\r\n")
    if not found:
        return None
    message = Message()
    for line in head.decode(errors="replace").split("\r\n"):
        header, _, value = line.partition(":")
        message[header.strip()] = value.strip()
    name = message.get_param("name", header="content-disposition")
    filename = message.get_param("filename", header="content-disposition")
    kind = message.get("content-type")
    return Field(str(name or ""), None if filename is None else str(filename), kind, content)


def read_form(content_type: str, body: bytes) -> Iterator[Field]:
    """The parts of a body, in order; nothing when it is no multipart form."""
    message = Message()
    message["content-type"] = content_type
    boundary = message.get_boundary()
    if message.get_content_type() != "multipart/form-data" or not boundary:
        return
    mark = b"--" + boundary.encode()
    for part in (b"\r\n" + body).split(b"\r\n" + mark)[1:-1]:
        field = _field(part.removeprefix(b"\r\n"))
        if field is not None:
            yield field
