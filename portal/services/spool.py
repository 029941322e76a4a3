"""Bytes of a request that are kept for as long as it lasts, and not in memory."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import BinaryIO, cast

from django.conf import settings


class Spool:
    """A file without a name in the data folder: nobody else can open it, and it ends with its holder or
    the process, whichever goes first."""

    __slots__ = ("_file", "size")

    def __init__(self, content: bytes = b"") -> None:
        # It is closed when this goes.
        self._file = TemporaryFile(dir=settings.DATA_DIR)  # noqa: SIM115
        self.size = 0
        self.write(content)

    def write(self, data: bytes) -> None:
        """At the end."""
        self._file.seek(0, 2)
        self.size += self._file.write(data)

    def head(self, size: int) -> bytes:
        self._file.seek(0)
        return self._file.read(size)

    def open(self) -> BinaryIO:
        """To be read from its start, by one reader at a time, who leaves it open."""
        self._file.seek(0)
        return cast(BinaryIO, self._file)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()
