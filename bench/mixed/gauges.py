"""What a portal holds at a moment: seen from outside, in /proc and in its database.

Per process: resident memory, descriptors, threads, and sockets by whose port is at the other end. Of the
database: places taken, credits reserved, and work that has not ended.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.mixed.portals import Portal
from tests.crash.verdict import Books

HELD = {
    "turns": "SELECT COUNT(*) FROM proxy_chatturn WHERE state = 'open'",
    "researches": "SELECT COUNT(*) FROM proxy_deepresearch WHERE held_until > CURRENT_TIMESTAMP",
    "runs": "SELECT COUNT(*) FROM research_run"
    " WHERE state NOT IN ('completed', 'failed', 'incomplete', 'cancelled')",
    "responses": "SELECT COUNT(*) FROM proxy_chatresponse WHERE completed_at IS NULL",
    "reserved": "SELECT SUM(reserved) FROM portal_creditaccount",
    "uploads": "SELECT COUNT(*) FROM proxy_storedfile WHERE NOT ready",
}
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
LISTENING = "0A"
CLOSED = "07"


@dataclass(slots=True)
class Process:
    """`sockets` counts by name of the far port; `clients` are those that came to its own."""

    name: str
    rss_mib: float = 0.0
    files: int = 0
    threads: int = 0
    sockets: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Reading:
    at: float
    processes: list[Process]
    held: dict[str, int]

    def total(self, name: str) -> int:
        return sum(process.sockets[name] for process in self.processes)

    def told(self) -> str:
        parts = [
            f"{process.name} {process.rss_mib:.0f} MiB/{process.files} files/{process.threads} threads"
            for process in self.processes
        ]
        names = sorted({name for process in self.processes for name in process.sockets})
        sockets = " ".join(f"{name}={self.total(name)}" for name in names)
        held = " ".join(f"{name}={count}" for name, count in self.held.items())
        return f"{' | '.join(parts)}\n           sockets {sockets}\n           held {held}"


def read(portal: Portal) -> Reading:
    return Reading(time.monotonic(), read_processes(portal), read_held(portal.books))


def read_held(books: Books) -> dict[str, int]:
    return {name: int(books.read(query)[0][0] or 0) for name, query in HELD.items()}


def read_processes(portal: Portal) -> list[Process]:
    """Those that live; one that dies meanwhile is left out."""
    ports = {port: name for name, port in portal.ports.items()}
    ports |= {server.port: "clients" for server in portal.webs}
    connections = _connections()
    found = []
    for server in portal.servers:
        if server.process is not None and server.process.poll() is None:
            name = server.folder.name
            try:
                found.append(_process(name, server.process.pid, server.port, ports, connections))
            except OSError:
                continue
    return found


def _process(
    name: str, pid: int, own: int, ports: dict[int, str], connections: dict[str, tuple[int, int]]
) -> Process:
    folder = Path(f"/proc/{pid}")
    status = (folder / "status").read_text()
    files = [_target(path) for path in (folder / "fd").iterdir()]
    process = Process(name, _number("VmRSS", status) / 1024, len(files), _number("Threads", status))
    for file in files:
        if file.startswith("socket:["):
            near, far = connections.get(file[8:-1], (0, 0))
            if near or far:
                process.sockets["clients" if near == own else ports.get(far, "others")] += 1
    return process


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # it was closed meanwhile
        return ""


def _number(name: str, status: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else 0


def _connections() -> dict[str, tuple[int, int]]:
    """(near port, far port) of each TCP socket that is no listener, by inode."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] not in (LISTENING, CLOSED):
                near, far = (int(columns[place].rpartition(":")[2], 16) for place in (1, 2))
                found[columns[9]] = near, far
    return found
