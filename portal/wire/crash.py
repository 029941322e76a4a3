"""Places where a test may have the process killed, as a power cut would (STACK §4.7).

`SONDE_CRASH_AT=name` kills this process with SIGKILL the moment it reaches that point; with
`name:N` at the Nth visit; with `name=stop` it is stopped there instead, as a virtual machine may be, until
somebody lets it go on. `SONDE_CRASH_AT=@path` reads that from a file at each visit, so that a running
process can be told. Unset, which is always so in production, a visit is one dict look-up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

_visits: Counter[str] = Counter()


def crashpoint(name: str) -> None:
    wanted = os.environ.get("SONDE_CRASH_AT")
    if wanted is None:
        return
    if wanted.startswith("@"):
        wanted = _told_by(Path(wanted[1:]))
    wanted, _, how = wanted.partition("=")
    point, _, visit = wanted.partition(":")
    if point != name:
        return
    _visits[name] += 1
    if _visits[name] >= int(visit or "1"):
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def _told_by(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
