"""Large blocks of memory: where glibc says so, they are the system's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import ctypes
from portal.running.memory import LARGE, give_large_blocks_back

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

library = ctypes.CDLL(None)
if hasattr(library, "mallinfo2"):
    library.mallinfo2.restype = Info
    give_large_blocks_back()
    lesson = bytes(20 * 1024 * 1024)
    del lesson
    before = library.mallinfo2().hblkhd
    block = bytes(LARGE * 2)
    assert library.mallinfo2().hblkhd - before >= LARGE * 2, "it is kept when it is freed"
"""


@pytest.mark.slow
def test_it_does_not_learn_to_keep_large_blocks() -> None:
    subprocess.run([sys.executable, "-c", CHILD], check=True)
