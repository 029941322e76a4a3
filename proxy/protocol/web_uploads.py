"""The upstream's upload flow, without its network (perplexity-web §14).

create_body  →  read_form    a form for the storage, from Perplexity
                read_stored  the file's address, from the storage
process_body →  Reading      documents alone: whether Perplexity could read it
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from yarl import URL

from portal.wire.addresses import is_loopback
from portal.wire.sse import SseRecord
from proxy.protocol.attachments import is_picture
from proxy.protocol.tolerant import object_of, text_of
from proxy.protocol.web_frame import read_json

CREATE_PATH = "/rest/uploads/create_upload_url"
PROCESS_PATH = "/rest/sse/attachment_processing/subscribe"
LARGEST_READING = 1024 * 1024
"""Bytes of the events about documents."""
_S3, _CLOUDINARY = ".amazonaws.com", "api.cloudinary.com"
_PICTURES = "image/upload"
# Cloudinary's own signature of the address: the upstream wants it without.
_SIGNATURE = re.compile(r"/private/s--[^/]+--/v\d+/user_uploads/")
_encode = msgspec.json.Encoder().encode


class Refused(Exception):
    """The upload does not come to a good end. The text tells people why."""


@dataclass(frozen=True, slots=True)
class Form:
    """Where the bytes go, with `fields` in this order before them, and where they are then."""

    url: str
    fields: Mapping[str, str]
    object_url: str
    file_id: str
    """`file_uuid`: by which the processing knows the file."""


def create_body(filename: str, content_type: str, size: int) -> bytes:
    return _encode(
        {
            "content_type": content_type,
            "file_size": size,
            "filename": filename,
            "force_image": False,
            "source": "default",
        }
    )


def process_body(file_id: str) -> bytes:
    return _encode({"file_uuids": [file_id]})


def read_form(body: bytes, base_url: str) -> Form:
    """The form of an answer with a 200. Raises Refused.

    The storage is Amazon's or Cloudinary's; on this machine only when the upstream at `base_url` is.
    """
    value = object_of(read_json(body))
    if value.get("rate_limited"):
        raise Refused("Perplexity takes no more files of this session for now.")
    if value.get("error"):
        raise Refused("Perplexity does not take this file.")
    fields = object_of(value.get("fields"))
    form = Form(
        text_of(value.get("s3_bucket_url")),
        {name: str(field) for name, field in fields.items() if isinstance(field, str | int)},
        text_of(value.get("s3_object_url")),
        text_of(value.get("file_uuid")),
    )
    whole = form.url and form.object_url and form.file_id and fields and len(form.fields) == len(fields)
    if not whole or not _is_storage(form.url, base_url):
        raise Refused("Perplexity did not say where the file is to be stored.")
    return form


def read_stored(form: Form, status: int, body: bytes) -> str:
    """The address of a file that was sent to its storage. Raises Refused."""
    if status not in (200, 201, 204):
        raise Refused("The storage of Perplexity did not take the file.")
    if _PICTURES not in form.object_url:
        return form.object_url
    value = object_of(read_json(body))
    verdicts = value.get("moderation")
    if isinstance(verdicts, list) and any(object_of(one).get("status") == "rejected" for one in verdicts):
        raise Refused("The moderation of Perplexity rejected the picture.")
    url = text_of(value.get("secure_url"))
    if not url:
        raise Refused("The storage of Perplexity did not say where the picture is.")
    return _SIGNATURE.sub("/private/user_uploads/", url)


def needs_reading(content_type: str) -> bool:
    """Pictures are looked at as they are; documents are to be read first."""
    return not is_picture(content_type)


@dataclass(slots=True)
class Reading:
    """What the events say about one document. `stored` is its address until they name another."""

    file_id: str
    stored: str
    _done: bool = False

    def take(self, record: SseRecord) -> None:
        """The next event; those about other files say nothing. Raises Refused."""
        value = object_of(read_json(record.data))
        if value.get("file_uuid") != self.file_id:
            return
        if value.get("token_limit_exceeded"):
            raise Refused("The document is too long for Perplexity.")
        if value.get("success") is not True:
            raise Refused("Perplexity could not read the document.")
        self.stored = text_of(value.get("s3_url")) or self.stored
        self._done = True

    def end(self) -> str:
        """Raises Refused when nothing was said."""
        if not self._done:
            raise Refused("Perplexity did not say whether it could read the document.")
        return self.stored


def _is_storage(url: str, base_url: str) -> bool:
    try:
        found, upstream = URL(url), URL(base_url)
    except ValueError:
        return False
    host = (found.raw_host or "").lower()
    if found.raw_user is not None or found.raw_password is not None:
        return False
    if is_loopback(host):
        return is_loopback(upstream.raw_host or "")
    return found.scheme == "https" and (host.endswith(_S3) or host == _CLOUDINARY)
