"""The upstream of S6: the cheapest Agent API that jobs can be looked at in, and what it saw of that.

    python -m bench.runs.jobs PORT

`GET /v1/agent/<id>` is a job that goes on. `GET /seen` tells how many looks there were since `POST /begin`,
and how long they came after the look before at the same job: seconds, by their place among all.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

PLACES = (0.5, 0.9, 0.99, 1.0)
LOOK = b"GET /v1/agent/"
JOB = {
    "object": "response",
    "created_at": 1_790_000_000,
    "status": "in_progress",
    "background": True,
    "model": "perplexity/sonar-deep-research",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
    "metadata": {},
}


class Seen:
    """When each job was looked at last, and the gaps between looks."""

    def __init__(self) -> None:
        self.last: dict[bytes, float] = {}
        self.jobs: set[bytes] = set()
        self.gaps: list[float] = []
        self.looks = 0

    def look(self, job: bytes) -> None:
        now = time.perf_counter()
        before = self.last.get(job)
        self.last[job] = now
        self.looks += 1
        self.jobs.add(job)
        if before is not None:
            self.gaps.append(now - before)

    def begin(self) -> None:
        self.jobs.clear()
        self.gaps.clear()
        self.looks = 0

    def told(self) -> dict[str, object]:
        ordered = sorted(self.gaps) or [0.0]
        gaps = {str(place): ordered[min(int(len(ordered) * place), len(ordered) - 1)] for place in PLACES}
        return {"looks": self.looks, "jobs": len(self.jobs), "gaps": gaps}


seen = Seen()


class Connection(asyncio.Protocol):
    """Requests come one after another, each in one piece: nothing else is sent here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(LOOK):
            job = data[len(LOOK) : data.index(b" ", len(LOOK))]
            seen.look(job)
            self.transport.write(answer({"id": job.decode(), **JOB}))
        elif data.startswith(b"POST /begin"):
            seen.begin()
            self.transport.write(answer({}))
        else:
            self.transport.write(answer(seen.told()))


def answer(value: object) -> bytes:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
