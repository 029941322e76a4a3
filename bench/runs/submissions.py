"""S7's load: so many callers, each of whom starts one run after another.

    python -m bench.runs.submissions URL --clients 16 --seconds 5 --key-file FILE

Prints one JSON object: requests, failures, requests per second, milliseconds (median, p99). A request counts
when it answers with a queued run. Each has an idempotency key of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import uvloop

from bench.load import Client, Tally, summary

QUESTION = {"input": "State of solid state battery manufacturing, 2026", "preset": "high"}


async def caller(options: argparse.Namespace, key: str, until: float, tally: Tally) -> None:
    url = urlsplit(options.url)
    body = json.dumps(QUESTION).encode()
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\nIdempotency-Key: "
    ).encode()
    _, client = await asyncio.get_running_loop().create_connection(Client, url.hostname, url.port)
    while time.perf_counter() < until and not client.lost:
        client.reset()
        began = time.perf_counter()
        client.transport.write(head + uuid4().hex.encode() + b"\r\n\r\n" + body)
        answer = await client.whole
        if b" 200 " in answer[:16] and b'"queued"' in answer:
            tally.wholes.append((time.perf_counter() - began) * 1000)
        else:
            tally.failures.append(answer[:300].decode(errors="replace"))
    client.transport.close()


async def main(options: argparse.Namespace) -> None:
    tally, began = Tally(), time.perf_counter()
    until = began + options.seconds
    await asyncio.gather(*(caller(options, options.key, until, tally) for _ in range(options.clients)))
    print(json.dumps(summary(tally, time.perf_counter() - began)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.runs.submissions")
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--key-file", required=True)
    options = parser.parse_args()
    options.key = Path(options.key_file).read_text().strip()
    return options


if __name__ == "__main__":
    uvloop.run(main(parse()))
