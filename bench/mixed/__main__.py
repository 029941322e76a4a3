"""Two hundred clients of every kind, for minutes, against an upstream that flaps: what is left behind?

    .venv/bin/python -m bench.mixed [--clients 200] [--minutes 5] [--embedded] [--outages] [--chaos]

`--outages` takes away PostgreSQL or Valkey now and then (embedded: locks the database as a backup does),
`--chaos` kills processes of the portal. Exits with 1 when something is left that was not there before
(descriptors, connections, threads, memory, places, reservations), when the books are wrong, when a caller
was told what nobody may be told, when an accepted run or response has no end, or when an upstream stayed
open for its caller who had left.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import httpx

from bench.mixed import raw_visits, visits
from bench.mixed.flapping import Flapping
from bench.mixed.gauges import Reading, read
from bench.mixed.lags import gauged
from bench.mixed.portals import Portal, running_portal
from bench.mixed.verdict import IDLE, UPSTREAM, Found, faults_of, orphans_of
from bench.mixed.visitor import PATIENCE, Broken, Notes, Visitor

Visit = Callable[[Visitor], Awaitable[str]]
KINDS: dict[Visit, int] = {
    visits.plain: 14,
    visits.stream: 22,
    visits.left_midway: 10,
    visits.left_early: 8,
    visits.background: 7,
    visits.resumed: 6,
    visits.run_resumed: 4,
    visits.research: 6,
    visits.files: 4,
    visits.agent: 6,
    visits.page: 4,
    raw_visits.page_socket: 6,
    raw_visits.slow_reader: 3,
    raw_visits.abandoned: 4,
    raw_visits.half_upload: 2,
    raw_visits.half_head: 1,
    raw_visits.slow_body: 1,
    raw_visits.stalled_reader: 1,
}
EVERY = 30.0
"""Seconds from one look at the gauges to the next."""
SETTLE_SECONDS = 240.0
"""More than any lease: what a process that died, or gave up, has left is free by then."""
LAST_VISITS = 330.0
"""Seconds for visits that were begun in time: some follow an answer for 300."""


def visitors_of(portal: Portal, notes: Notes, clients: int, seed: int) -> list[Visitor]:
    # A kept connection breaks when it is taken up at the moment at which the portal gives it up.
    limits = httpx.Limits(max_connections=4, max_keepalive_connections=0)
    made = []
    for place in range(clients):
        key, session = portal.users[place % len(portal.users)]
        client = httpx.AsyncClient(
            base_url=portal.webs[place % len(portal.webs)].url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE,
            limits=limits,
            trust_env=False,
        )
        made.append(Visitor(client, key, session, notes, random.Random(seed * 1000 + place)))
    return made


async def come(visitor: Visitor, kinds: dict[Visit, int], until: float) -> None:
    """One visit after another."""
    await asyncio.sleep(visitor.chance.uniform(0, 3))
    while time.monotonic() < until:
        (kind,) = visitor.chance.choices(list(kinds), list(kinds.values()))
        visitor.kind = kind.__name__
        visitor.notes.outcomes[visitor.kind, await outcome_of(kind, visitor)] += 1
        await asyncio.sleep(visitor.chance.uniform(0, 0.5))
    await visitor.client.aclose()


async def outcome_of(kind: Visit, visitor: Visitor) -> str:
    try:
        return await kind(visitor)
    except Broken as broken:
        return str(broken)
    except TimeoutError:
        visitor.notes.wrong(f"{visitor.kind} {visitor.markers}: it did not end")
    except (httpx.HTTPError, OSError) as error:
        if visitor.notes.may_break and not isinstance(error, httpx.TimeoutException):
            return "broke off"
        visitor.notes.wrong(f"{visitor.kind} {visitor.markers}: {type(error).__name__} {error}")
    return "wrong"


async def crowd(portal: Portal, notes: Notes, kinds: dict[Visit, int], clients: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    coming = [come(one, kinds, until) for one in visitors_of(portal, notes, clients, int(seconds))]
    try:
        await asyncio.wait_for(asyncio.gather(*coming), seconds + LAST_VISITS)
    except TimeoutError:
        notes.wrong("visits that never end")


async def watch(portal: Portal, ended: asyncio.Event, started: float, readings: list[Reading]) -> None:
    while not ended.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), EVERY)
        if not ended.is_set() and (reading := await show(portal, started)):
            readings.append(reading)


async def show(portal: Portal, started: float) -> Reading | None:
    try:
        reading = await asyncio.to_thread(read, portal)
    except Exception as error:  # its database may be away at this moment
        print(f"{time.monotonic() - started:6.0f} s  cannot be read: {type(error).__name__}", flush=True)
        return None
    print(f"{time.monotonic() - started:6.0f} s  {reading.told()}", flush=True)
    return reading


async def settled(portal: Portal) -> Reading:
    """As soon as nothing is held any more, or what it is after a long wait."""
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        reading = await asyncio.to_thread(read, portal)
        idle = all(process.sockets["upstream"] <= IDLE for process in reading.processes)
        held = any(reading.held.values()) or reading.total("clients")
        if (idle and not held) or time.monotonic() > until:
            return reading
        await asyncio.sleep(1)


async def measure(portal: Portal, options: argparse.Namespace) -> list[str]:
    seconds, started = options.minutes * 60, time.monotonic()
    await crowd(portal, Notes(), KINDS, options.clients, min(60.0, max(10.0, seconds / 5)))
    base = await settled(portal)
    print(f"  base  {base.told()}", flush=True)

    notes = Notes(may_break=options.outages or options.chaos, may_lose=options.chaos)
    flapping = Flapping(portal, notes, options.seed)
    acts = [(1, 3, flapping.fail_next), (1, 4, flapping.shake), (40, 70, flapping.kill_upstream)]
    acts += [(15, 30, flapping.take_away)] if options.outages else []
    acts += [(8, 20, flapping.kill_one)] if options.chaos else []
    running = [asyncio.create_task(flapping.every(*act)) for act in acts]
    readings: list[Reading] = []
    running.append(asyncio.create_task(watch(portal, flapping.ended, started, readings)))
    others = {web.folder.name: f"{web.url}/health/live" for web in portal.webs}
    others[UPSTREAM] = f"{portal.sandbox.url}/_sandbox"
    with gauged(others, portal.sandbox.database.with_name("lags")) as lags:
        await crowd(portal, notes, KINDS, options.clients, seconds)
        flapping.ended.set()
        await asyncio.gather(*running)
        await flapping.calm()
    end = await settled(portal)
    print(f"   end  {end.told()}\n{told(notes, flapping)}", flush=True)
    print(orphans_of(portal))
    found = Found(portal, notes, flapping.deaths, lags(), base, half_of(readings, seconds) or end, end)
    return faults_of(found)


def half_of(readings: list[Reading], seconds: float) -> Reading | None:
    """The last of the first half. By then, if the load lasts, whatever grows to its size has it."""
    began = readings[0].at - EVERY if readings else 0.0
    first = [reading for reading in readings if reading.at < began + seconds / 2]
    return first[-1] if first else None


def told(notes: Notes, flapping: Flapping) -> str:
    lines = [f"upstream: {dict(flapping.told)}", f"asked: {notes.asked}"]
    for kind in KINDS:
        of = {what: count for (name, what), count in sorted(notes.outcomes.items()) if name == kind.__name__}
        lines.append(f"  {kind.__name__:15} {of}")
    return "\n".join(lines)


def main() -> int:
    options = parse()
    with (
        tempfile.TemporaryDirectory(prefix="sonde-mixed-") as folder,
        running_portal(Path(folder), embedded=options.embedded) as portal,
    ):
        faults = asyncio.run(measure(portal, options))
        logs = portal.logs()
    errors = [line for log in logs.values() for line in log.splitlines() if " ERROR " in line]
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        for name, log in logs.items():
            (options.logs / f"{name}.log").write_text(log)
    print(f"lines at ERROR in the logs: {len(errors)}", *errors[:5], sep="\n  ")
    print("VERDICT: " + ("all is back" if not faults else f"{len(faults)} faults"), *faults, sep="\n  ")
    return int(bool(faults))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.mixed")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--embedded", action="store_true", help="one process on SQLite")
    parser.add_argument("--outages", action="store_true", help="take away what the portal stands on")
    parser.add_argument("--chaos", action="store_true", help="kill processes of the portal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="a folder for the logs of its processes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
