"""Memory that a large request took goes back to the system when the request is over."""

from __future__ import annotations

import ctypes
from contextlib import suppress

LARGE = 2 * 1024 * 1024
"""Bytes of a block that the system is asked for by itself, and gets back."""
_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of glibc's malloc.h."""


def give_large_blocks_back() -> None:
    """glibc learns from the first large block that is freed to keep others of its size, up to 32 MiB, in
    every thread's arena: a few questions with pictures, of 28 MiB each, stayed a gigabyte. Told a size, it
    learns no other. Where there is another C library, nothing is done."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE)
