"""An upload's `multipart/form-data`, read as it comes (proxy-contract §10, openai-compat §1.1).

    feed(bytes) → what of them is the file's        end() → name, purpose, expiry

Nothing is kept of the file, and of the other fields only what is known and short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from portal.wire.errors import BadRequest, TooLarge
from proxy.protocol.files import LARGEST_FILE, check_filename, check_purpose

FRAMING = 64 * 1024
"""Bytes of a form beside its file."""
MOST_PARTS = 16
LONGEST_FIELD = 200
EXPIRY_SECONDS = (3600, 30 * 24 * 3600)
"""What `expires_after[seconds]` may be, as OpenAI has it."""
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
FIELDS = ("purpose", ANCHOR, SECONDS)


@dataclass(frozen=True, slots=True)
class FileWish:
    """What an upload asks for. `content_type` is the sender's own word, "" without one."""

    filename: str
    content_type: str = ""
    purpose: str = "user_data"
    expires_seconds: int | None = None


class FileForm:
    """One form with exactly one file. Everything raises BadRequest, and TooLarge, with `param` file."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise _bad("Send the file as multipart/form-data, with its boundary.")
        self._size = self._parts = 0
        self._filename: str | None = None
        self._type = ""
        self._fields: dict[str, bytearray] = {}
        self._headers: dict[str, bytearray] = {}
        self._header = bytearray()
        self._take: Callable[[bytes], None] = _leave
        self._file: list[bytes] = []
        self._over = False
        with _readable():
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_begin": self._header.clear,
                    "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                    "on_header_value": self._take_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": lambda data, start, end: self._take(data[start:end]),
                    "on_end": self._close,
                },
            )

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the file that are in `data`."""
        self._file.clear()
        with _readable():
            self._parser.write(data)
        return b"".join(self._file)

    def end(self) -> FileWish:
        """What it was, once everything has come."""
        if not self._over:
            raise _bad("The form ends before its end.")
        if self._filename is None:
            raise _bad("The form has no part that is called file and is a file.")
        if not self._size:
            raise _bad("The file is empty.")
        purpose = check_purpose(self._field("purpose") or "user_data")
        return FileWish(self._filename, self._type, purpose, self._expiry())

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _bad("The form has too many parts.")
        self._headers.clear()

    def _take_header(self, data: bytes, start: int, end: int) -> None:
        name = self._header.decode("latin-1").lower()
        self._headers.setdefault(name, bytearray()).extend(data[start:end])

    def _open_part(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b"").decode("latin-1"))
        name = options.get(b"name", b"").decode("latin-1")
        self._take = _leave
        if b"filename" in options:
            self._open_file(name, options[b"filename"])
        elif name in FIELDS:
            if name in self._fields:
                raise _bad(f"The form has {name} twice.")
            self._fields[name] = bytearray()
            self._take = self._take_field(name)

    def _open_file(self, name: str, filename: bytes) -> None:
        if name != "file" or self._filename is not None:
            raise _bad("Send exactly one file, in a part that is called file.")
        try:
            self._filename = check_filename(filename.decode())
        except UnicodeDecodeError:
            raise _bad("The name of the file is not UTF-8.") from None
        told = self._headers.get("content-type", b"").decode("latin-1")
        self._type = told.partition(";")[0].strip().lower()[:100]
        self._take = self._take_file

    def _take_file(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > LARGEST_FILE:
            raise too_large()
        self._file.append(data)

    def _take_field(self, name: str) -> Callable[[bytes], None]:
        def take(data: bytes) -> None:
            self._fields[name] += data
            if len(self._fields[name]) > LONGEST_FIELD:
                raise _bad(f"{name} is too long.")

        return take

    def _close(self) -> None:
        self._over = True

    def _field(self, name: str) -> str:
        return self._fields.get(name, b"").decode("utf-8", "replace").strip()

    def _expiry(self) -> int | None:
        anchor, seconds = self._field(ANCHOR), self._field(SECONDS)
        if not anchor and not seconds:
            return None
        least, most = EXPIRY_SECONDS
        plain = seconds.isascii() and seconds.isdigit() and len(seconds) < 10
        if anchor != "created_at" or not plain or not least <= int(seconds) <= most:
            told = f"expires_after needs the anchor created_at and from {least} to {most} seconds."
            raise BadRequest(told, param="expires_after")
        return int(seconds)


def too_large() -> TooLarge:
    return TooLarge(f"A file may have at most {LARGEST_FILE:,} bytes.", param="file")


def _leave(_: bytes) -> None:
    """A part that nobody knows: unknown fields are ignored (SPEC 10.9)."""


@contextmanager
def _readable() -> Iterator[None]:
    """What the parser cannot read is a 400."""
    try:
        yield
    except FormParserError:
        raise _bad("The form is not multipart/form-data as RFC 7578 has it.") from None


def _bad(message: str) -> BadRequest:
    return BadRequest(message, param="file")
