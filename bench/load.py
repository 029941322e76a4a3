"""The load generator: so many clients in a closed loop, or so many streams held open at once.

    python -m bench.load URL --clients 16 --seconds 5 --marker 'chunks=8;first=0;gap=0' [--stream]

Prints one JSON object: requests, failures, requests per second, milliseconds to the first byte of text
and to the end (median, p99), chunks. A request counts when its answer is whole: `[DONE]`, or a choice.

With `--once`, also how late chunks were while all streams were open: each against the pace of its own
stream, of which the earliest one is taken to be in time. That needs an upstream that keeps its pace, and
holds what upstream and load generator add themselves: look at the same figure without a proxy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop


@dataclass(slots=True)
class Tally:
    firsts: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    arrivals: list[list[float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    chunks: int = 0


class Client(asyncio.Protocol):
    """One kept connection. It reads as little as tells where an answer ends."""

    def __init__(self) -> None:
        self.lost = False
        self.reset()

    def reset(self) -> None:
        self.read = bytearray()
        self.arrivals: list[float] = []
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        found = data.count(b'"content":"') + data.count(b'"content": "')
        if found:
            self.arrivals += [time.perf_counter()] * found
        self.read += data
        if self._is_whole() and not self.whole.done():
            self.whole.set_result(bytes(self.read))

    def _is_whole(self) -> bool:
        head, end, _ = bytes(self.read[:1000]).partition(b"\r\n\r\n")
        place = head.lower().find(b"content-length:")
        if not end or place < 0:
            return bool(end) and self.read.endswith(b"\r\n0\r\n\r\n")
        size = int(head[place + 15 :].split(b"\r\n", 1)[0])
        return len(self.read) >= len(head) + 4 + size

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if not self.whole.done():
            self.whole.set_result(bytes(self.read))


async def ask(client: Client, request: bytes, streams: bool, tally: Tally) -> None:
    client.reset()
    began = time.perf_counter()
    client.transport.write(request)
    answer = await client.whole
    ended = time.perf_counter()
    good = b" 200 " in answer[:16] and (b"[DONE]" in answer if streams else b'"choices"' in answer)
    if not good:
        tally.failures.append(answer[:300].decode(errors="replace") or "no answer: the connection was closed")
        return
    tally.firsts.append(((client.arrivals[0] if client.arrivals else ended) - began) * 1000)
    tally.wholes.append((ended - began) * 1000)
    tally.chunks += len(client.arrivals)
    if streams:
        tally.arrivals.append(client.arrivals)


def request_bytes(options: argparse.Namespace, place: int) -> bytes:
    url = urlsplit(options.url)
    key = Path(options.key_file).read_text().strip() if options.key_file else ""
    question = f"Question {place}: how do tides work? [bench:{options.marker}]"
    body = {"model": options.model, "messages": [{"role": "user", "content": question}]}
    if options.stream:
        body["stream"] = True
    raw = json.dumps(body).encode()
    head = [f"POST {url.path} HTTP/1.1", f"Host: {url.netloc}", "Content-Type: application/json"]
    head += [f"Content-Length: {len(raw)}", *([f"Authorization: Bearer {key}"] if key else [])]
    return "\r\n".join([*head, "", ""]).encode() + raw


async def loop_of(options: argparse.Namespace, place: int, until: float, tally: Tally) -> None:
    url, loop = urlsplit(options.url), asyncio.get_running_loop()
    request, client = request_bytes(options, place), None
    await asyncio.sleep(options.ramp * place / options.clients)
    while client is None or (time.perf_counter() < until and not options.once):
        if client is None or client.lost:
            _, client = await loop.create_connection(Client, url.hostname, url.port)
        await ask(client, request, options.stream, tally)
    client.transport.close()


def lateness(streams: list[list[float]], pace: float) -> list[float]:
    """Milliseconds that chunks came late while all of these streams were open; infinite when they never
    were. `pace`: seconds a chunk."""
    opened, ended = max(stream[0] for stream in streams), min(stream[-1] for stream in streams)
    late: list[float] = []
    for stream in streams:
        offsets = [moment - place * pace for place, moment in enumerate(stream) if opened < moment <= ended]
        late += [(offset - min(offsets)) * 1000 for offset in offsets]
    return late or [math.inf]


def summary(tally: Tally, seconds: float, pace: float | None = None) -> dict[str, object]:
    def spread(values: list[float]) -> dict[str, float]:
        ordered = sorted(values) or [0.0]
        return {"p50": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)]}

    return {
        "requests": len(tally.wholes),
        "failures": len(tally.failures),
        "a_failure": tally.failures[0] if tally.failures else None,
        "per_second": len(tally.wholes) / seconds,
        "first_ms": spread(tally.firsts),
        "whole_ms": spread(tally.wholes),
        "late_ms": spread([] if pace is None else lateness(tally.arrivals or [[math.inf]], pace)),
        "chunks": tally.chunks,
    }


async def main(options: argparse.Namespace) -> None:
    tally, began = Tally(), time.perf_counter()
    until = began + options.seconds
    await asyncio.gather(*(loop_of(options, place, until, tally) for place in range(options.clients)))
    pace = int(options.marker.rpartition("gap=")[2]) / 1000 if options.once else None
    print(json.dumps(summary(tally, time.perf_counter() - began, pace)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.load")
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--marker", default="chunks=8;first=0;gap=0")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--once", action="store_true", help="each client asks once: streams held at once")
    parser.add_argument("--ramp", type=float, default=0.0, help="seconds over which the clients begin")
    parser.add_argument("--key-file", default="")
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(parse()))
