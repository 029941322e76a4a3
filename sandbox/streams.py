"""The faults of an event stream, the same for both APIs: cut, silent, or ended by an error after N events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sandbox.scenarios import Script
from sandbox.wire import Cut
from sandbox.world import World

ERROR = (
    b'data: {"type":"error","error":{"message":"the stream was lost","type":"bad_gateway","code":502}}\n\n'
)
_SILENCE = 3600.0


async def troubled(world: World, script: Script, events: AsyncIterator[bytes]) -> AsyncIterator[bytes | Cut]:
    """The events up to where the script's trouble begins."""
    number = 0
    async for event in events:
        if number == script.number("cut-stream", -1):
            yield Cut()
            return
        if number == script.number("error-stream", -1):
            yield ERROR
            return
        while number == script.number("idle-stream", -1):
            await world.sleep(_SILENCE)
        yield event
        number += 1
