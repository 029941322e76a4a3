"""Records as bytes (perplexity-web §5): line ends, comments, and how the bytes are cut into writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from sandbox.scenarios import Script
from sandbox.wire import Cut

END = ("end_of_stream", b"{}")
_CUT_PAUSE = 0.01

Write = Callable[[int, str, bytes], bytes]


def _upstream(_: int, name: str, data: bytes) -> bytes:
    return b"event: %b\r\ndata: %b\r\n\r\n" % (name.encode(), data)


def _lf(_: int, name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _lines(data: bytes) -> list[bytes]:
    """The same JSON over several lines; what is no JSON stays on one."""
    try:
        return json.dumps(json.loads(data), ensure_ascii=False, indent=0).encode().splitlines()
    except ValueError:
        return [data]


def _odd(number: int, name: str, data: bytes) -> bytes:
    """Everything that the rules of event streams allow, in turn."""
    end = (b"\r\n", b"\n")[number % 2]
    noise = b"event: ping" + end + b'data: {"status":"FAILED"}' + end + end
    manner = number % 4
    if manner == 0 and name == "message":
        return noise + b"id: %d" % number + end + b"data:" + data + end + end
    if manner == 1:
        return b"event:%b%bretry: 3000%bdata:%b%b%b" % (name.encode(), end, end, data, end, end)
    if manner == 2:
        lines = b"".join(b"data: " + line + end for line in _lines(data))
        return b": a comment" + end + b"event: " + name.encode() + end + lines + end
    return b"data: %b%bevent: %b%b%b" % (data, end, name.encode(), end, end)


def writer(script: Script) -> Write:
    """How a record is written: number, event name, data → bytes."""
    return {"lf": _lf, "odd": _odd}.get(script.markers.get("framing", ""), _upstream)


HEARTBEAT = b": heartbeat\r\n\r\n"


def _inside_character(record: bytes) -> int:
    """A place inside the first character of several bytes; 0 without one."""
    return next((place + 1 for place, byte in enumerate(record) if byte >= 0xC0), 0)


async def _split(events: AsyncIterator[bytes | Cut]) -> AsyncIterator[bytes | Cut]:
    async for event in events:
        place = 0 if isinstance(event, Cut) else _inside_character(event)
        if isinstance(event, Cut) or not place:
            yield event
            continue
        yield event[:place]
        await asyncio.sleep(_CUT_PAUSE)
        yield event[place:]


async def _dribble(events: AsyncIterator[bytes | Cut], size: int) -> AsyncIterator[bytes | Cut]:
    async for event in events:
        if isinstance(event, Cut):
            yield event
            return
        for start in range(0, len(event), size):
            yield event[start : start + size]
            await asyncio.sleep(0)


def written(script: Script, events: AsyncIterator[bytes | Cut]) -> AsyncIterator[bytes | Cut]:
    """The records in the writes that the script asks for; one write each without a marker."""
    if "split-utf8" in script:
        return _split(events)
    if "dribble" in script:
        return _dribble(events, int(script.number("dribble", 7)))
    return events
