"""What strangers without a key may cost an embedded portal: memory, descriptors, and everybody's patience.

    .venv/bin/python -m bench.floods [--connections 4000] [--only heads,bodies]

Each flood opens so many connections, holds them for a while, and lets them go. Told are megabytes and
descriptors before, at most and afterwards, kibibytes for one connection, and how long `/health/live`
took meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx

from bench.servers import Target
from tests.running_server import RunningServer

HOLD_SECONDS = 8.0
AT_ONCE = 200
"""Connections that are being opened; the portal's backlog is longer."""
KEYLESS = 60_000
"""Bytes of a body: fewer than the APIs read of one before they look for a key."""
CHAT = "/v1/chat/completions"


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()


def handshake(port: int) -> bytes:
    return head(
        "GET",
        "/ws/",
        f"Origin: http://127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )


JSON = ("Content-Type: application/json", f"Content-Length: {KEYLESS + 1000}")
FORM = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 2400000")
# Heads and bodies come almost whole, and nearly as large as they may be.
FLOODS: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda port: b"",
    "heads": lambda port: head("GET", "/", "X-Long: " + "x" * 30_000)[:-4],
    "many-heads": lambda port: head("GET", "/", *["a: b"] * 240)[:-4],
    "bodies": lambda port: head("POST", CHAT, *JSON) + b" " * KEYLESS,
    "agents": lambda port: head("POST", "/mcp", *JSON) + b" " * KEYLESS,
    "forms": lambda port: head("POST", "/login", *FORM) + b"x" * 200_000,
    "unread": lambda port: head("GET", "/login") * 12,
    "sockets": handshake,
}


async def flood(port: int, said: bytes, connections: int, held: asyncio.Event) -> None:
    """Open them, a few at a time, say it, and hold all until told."""
    opening, loop = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop()
    opened: list[socket.socket] = []

    async def one() -> None:
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.append(client)
        async with opening:
            with suppress(OSError, TimeoutError):
                await loop.sock_connect(client, ("127.0.0.1", port))
                await asyncio.wait_for(loop.sock_sendall(client, said), 10)

    try:
        await asyncio.gather(*(one() for _ in range(connections)))
        await held.wait()
    finally:
        for client in opened:
            client.close()


async def slowest(url: str, held: asyncio.Event) -> float:
    """Seconds that a look took at most, in the meantime."""
    most = 0.0
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        while not held.is_set():
            began = time.monotonic()
            with suppress(httpx.HTTPError):
                await client.get(url)
            most = max(most, time.monotonic() - began)
            await asyncio.sleep(0.1)
    return most


async def measure(server: RunningServer, said: bytes, connections: int) -> str:
    target = Target("sonde", server.url, server.pid)
    before, held = (target.memory_kib(), files(server.pid)), asyncio.Event()
    flooding = asyncio.create_task(flood(server.port, said, connections, held))
    looking = asyncio.create_task(slowest(f"{server.url}/health/live", held))
    most, until = before, time.monotonic() + HOLD_SECONDS + connections / 500
    while time.monotonic() < until:
        most = max(most[0], target.memory_kib()), max(most[1], files(server.pid))
        await asyncio.sleep(0.1)
    held.set()
    await flooding
    took = await looking
    await asyncio.sleep(3)
    after = target.memory_kib(), files(server.pid)
    each = (most[0] - before[0]) / connections
    shown = " -> ".join(f"{kib // 1024} MiB {count} files" for kib, count in (before, most, after))
    return f"{shown}; {each:.1f} KiB each; slowest look {took:.2f} s"


def files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def main() -> int:
    options = parse()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    wanted = options.only.split(",") if options.only else list(FLOODS)
    with (
        tempfile.TemporaryDirectory(prefix="sonde-floods-") as folder,
        RunningServer(Path(folder)) as server,
    ):
        for name in wanted:
            told = asyncio.run(measure(server, FLOODS[name](server.port), options.connections))
            print(f"{name:11} {told}", flush=True)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.floods")
    parser.add_argument("--connections", type=int, default=4000)
    parser.add_argument("--only", default="", help=f"some of {','.join(FLOODS)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
