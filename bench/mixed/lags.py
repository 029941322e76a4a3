"""How late others are while a portal is under load, by a process of its own that has nothing else to do.

    python -m bench.mixed.lags NAME=URL ...

Each URL is asked for again and again; `machine` is how much longer than asked this process slept. It
writes a line for each: the name, when it began (unix seconds), and the seconds that it took.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlsplit

EVERY = 0.1
PATIENCE = 30.0
MACHINE = "machine"


class Lags:
    """What such a process wrote."""

    def __init__(self, log: Path) -> None:
        self._found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for line in log.read_text().splitlines():
            name, at, took = line.split()
            self._found[name].append((float(at), float(took)))
        for found in self._found.values():
            found.sort()

    @property
    def names(self) -> list[str]:
        return sorted(self._found)

    def most(self, name: str, since: float, until: float) -> float:
        """Seconds that it was late at most at any moment between these two."""
        found = self._found.get(name, [])
        first = bisect_left(found, since - PATIENCE, key=itemgetter(0))
        last = bisect_left(found, until, key=itemgetter(0))
        return max((took for at, took in found[first:last] if at + took >= since), default=0.0)


@contextmanager
def gauged(urls: Mapping[str, str], log: Path) -> Iterator[Callable[[], Lags]]:
    """Such a process, until the block ends; gives what reads the lags that it found so far."""
    command = [sys.executable, "-m", "bench.mixed.lags", *(f"{name}={url}" for name, url in urls.items())]
    with log.open("wb") as output:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output)
    try:
        yield lambda: Lags(log)
    finally:
        started.terminate()
        started.wait()


async def _watch(name: str, url: str) -> None:
    while True:
        at, began = time.time(), time.monotonic()
        with suppress(OSError, TimeoutError):  # it may be dead at the moment
            await asyncio.wait_for(_ask(url), PATIENCE)
            _write(name, at, time.monotonic() - began)
        await asyncio.sleep(EVERY)


async def _ask(url: str) -> None:
    """One answer over a connection of its own: the accepting counts, too."""
    asked = urlsplit(url)
    reader, writer = await asyncio.open_connection(asked.hostname, asked.port)
    try:
        head = f"GET {asked.path} HTTP/1.1\r\nHost: {asked.netloc}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        await reader.readline()
    finally:
        writer.close()


async def _watch_machine() -> None:
    while True:
        at, began = time.time(), time.monotonic()
        await asyncio.sleep(EVERY)
        _write(MACHINE, at, max(0.0, time.monotonic() - began - EVERY))


def _write(name: str, at: float, took: float) -> None:
    os.write(1, f"{name} {at:.3f} {took:.4f}\n".encode())


async def main(urls: Mapping[str, str]) -> None:
    await asyncio.gather(_watch_machine(), *(_watch(name, url) for name, url in urls.items()))


if __name__ == "__main__":
    asyncio.run(main(dict(pair.split("=", 1) for pair in sys.argv[1:])))
