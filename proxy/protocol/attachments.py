"""What may be attached to a question: how many, how large, of which types, from where (proxy-contract §11).

Everything here is checked before anybody is asked for anything. Errors are BadRequest and TooLarge
with `param` input; they never repeat what was sent.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

from portal.wire.addresses import is_literal, is_private_name, is_public
from portal.wire.errors import BadRequest, TooLarge

MOST = 5
"""Attachments of one request, those of earlier messages included."""
LARGEST = 20 * 1024 * 1024
"""Bytes of all of them together."""
LARGEST_INLINE = LARGEST * 4 // 3
"""The same as a request carries them, in base64."""
LONGEST_HEAD = 500
"""Characters of a data URL before its data."""
LONGEST_URL = 2048
HEAD = 16
"""Bytes that tell pictures apart."""
_EXTENSIONS: Mapping[str, tuple[str, ...]] = {
    "image/png": ("png",),
    "image/jpeg": ("jpg", "jpeg"),
    "image/gif": ("gif",),
    "image/webp": ("webp",),
    "application/pdf": ("pdf",),
    "text/plain": ("txt",),
    "text/markdown": ("md", "markdown"),
    "text/csv": ("csv",),
    "application/json": ("json",),
    "application/rtf": ("rtf",),
    "text/rtf": (),
    "application/msword": ("doc",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ("docx",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("xlsx",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ("pptx",),
}
"""The types that the upstream takes (perplexity-web §14)."""
ENDINGS = tuple(f".{ending}" for endings in _EXTENSIONS.values() for ending in endings)
"""Of names of files that can be read, for people who choose one."""
_OF_EXTENSION = {ending: kind for kind, endings in _EXTENSIONS.items() for ending in endings}
_NO_BLANKS = dict.fromkeys(map(ord, " \t\r\n"))
_ALIASES = {"image/jpg": "image/jpeg", "text/x-markdown": "text/markdown"}


@dataclass(frozen=True, slots=True)
class Inline:
    """A file that came in the request itself. `content_type` is what the sender says, "" for nothing."""

    content: bytes
    content_type: str = ""


def check_count(count: int) -> None:
    if count > MOST:
        raise BadRequest(f"A request can have at most {MOST} attachments.", param="input")


def check_size(size: int) -> None:
    """Of all attachments together."""
    if size > LARGEST:
        raise TooLarge(f"The attachments have more than {LARGEST:,} bytes together.", param="input")


def decode(data: str) -> Inline:
    """A base64 data URL, or base64 alone."""
    content_type = ""
    if data[:5].lower() == "data:":
        start = data.find(",", 0, LONGEST_HEAD)
        content_type, *options = [word.strip().lower() for word in data[5 : max(start, 0)].split(";")]
        data = data[start + 1 :]
        if start < 0 or "base64" not in options:
            raise _bad("A data URL must hold base64: data:<type>;base64,<data>.")
    check_size(len(data) * 3 // 4 - 2)
    try:
        content = base64.b64decode(data.translate(_NO_BLANKS), validate=True)
    except (binascii.Error, ValueError):
        raise _bad("The data of an attachment is not valid base64.") from None
    if not content:
        raise _bad("An attachment is empty.")
    return Inline(content, content_type)


def type_of(said: str, name: str, head: bytes) -> str:
    """The media type to send: as said, else as the name ends, else as the first bytes tell.

    A picture has to be what it is said to be.
    """
    said = said.partition(";")[0].strip().lower()
    said = _ALIASES.get(said, said)
    seen = _picture(head)
    found = said if said in _EXTENSIONS else _OF_EXTENSION.get(_ending(name)) or seen
    if not found:
        kinds = ", ".join(sorted(_OF_EXTENSION))
        raise _bad(f"An attachment is of a type that cannot be read. These can: {kinds}.")
    if is_picture(found) and found != seen:
        raise _bad(f"An attachment is called {found}, but its bytes are not.")
    return found


def is_picture(content_type: str) -> bool:
    return content_type.startswith("image/")


def upload_name(name: str, content_type: str) -> str:
    """A name with an ending: the upstream goes by it."""
    if _ending(name) in _OF_EXTENSION:
        return name
    endings = _EXTENSIONS[content_type] or ("rtf",)
    return f"{name or 'file'}.{endings[0]}"


def check_url(url: str) -> URL:
    """An address of the public internet, as far as it says so itself: where its name leads is seen when
    it is connected to."""
    try:
        found = URL(url)
        usual = found.scheme == "https" and found.port == 443
    except ValueError:
        raise _bad("The address of an attachment cannot be read.") from None
    host = found.raw_host or ""
    if not usual or not host or " " in url or not url.isprintable() or len(url) > LONGEST_URL:
        raise _bad("The address of an attachment must be https, at the usual port.")
    if found.raw_user is not None or found.raw_password is not None:
        raise _bad("The address of an attachment must not hold a user or a password.")
    if is_private_name(host) or (is_literal(host) and not is_public(host)):
        raise _bad("The address of an attachment does not lead to the public internet.")
    return found


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _picture(head: bytes) -> str:
    """The type that the first bytes belong to; "" for none."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _bad(message: str) -> BadRequest:
    return BadRequest(message, param="input")
