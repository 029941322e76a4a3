"""Server-sent events without a socket: bytes in, records out, and records to bytes.

As the HTML standard reads them: lines end with CRLF, LF or CR; a blank line ends a record; several
`data` lines are joined with LF; comments and unknown fields are dropped; a record that its blank
line never closed does not exist. The bytes may be cut anywhere, inside a UTF-8 character too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

LONGEST = 16 * 1024 * 1024
"""Bytes that may wait for the end of their record (perplexity-web §5)."""
_BOM = b"\xef\xbb\xbf"


class SseTooLong(Exception):
    """More than `LONGEST` bytes came without the end of a record: this is no event stream."""


class SseRecord(msgspec.Struct, frozen=True, gc=False):
    """One event. `event` is "message" where the stream named none; `data` is UTF-8, not checked."""

    event: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(slots=True)
class SseDecoder:
    """Give it what the network gave; it hands back every record that this completed."""

    longest: int = LONGEST
    _line: list[bytes] = field(default_factory=list)
    """The pieces of the line that has no end yet."""
    _line_size: int = 0
    _data: list[bytes] = field(default_factory=list)
    _data_size: int = 0
    _event: str = ""
    _after_cr: bool = False
    _at_start: bool = True

    def feed(self, data: bytes) -> list[SseRecord]:
        """Records completed by `data`. Raises `SseTooLong`; the decoder is of no use after that."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 0x0A:
                data = data[1:]
        records: list[SseRecord] = []
        for line in self._lines(data):
            if line:
                self._read(line)
            elif record := self._dispatch():
                records.append(record)
        if self._line_size + self._data_size > self.longest:
            raise SseTooLong(f"more than {self.longest:,} bytes without the end of a record")
        return records

    def _lines(self, data: bytes) -> list[bytes]:
        """Whole lines, without their ends; the beginning of a last one is kept for later."""
        if not data:
            return []
        lines = data.splitlines()
        if len(lines) == 1 and data[-1] not in b"\r\n":
            self._keep(data)
            return []
        if self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._line_size = 0
        if data[-1] not in b"\r\n":
            self._keep(lines.pop())
        self._after_cr = data[-1] == 0x0D
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_size += len(piece)

    def _read(self, line: bytes) -> None:
        """Adds to the record that is open."""
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._data_size += len(value) + 1
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")

    def _dispatch(self) -> SseRecord | None:
        event, self._event = self._event, ""
        if not self._data:
            return None
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._data_size = 0
        return SseRecord(event or "message", data)


def encode_event(data: str, event: str | None = None) -> bytes:
    """One record: `data` on as many lines as it has; `event` must be free of line ends."""
    named = f"event: {event}\n" if event else ""
    lines = "\n".join(f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"{named}{lines}\n\n".encode()


def encode_comment(text: str = "keepalive") -> bytes:
    """A line that every reader drops: it only shows that the stream lives."""
    return f": {text}\n\n".encode()
