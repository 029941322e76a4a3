"""An MCP server on standard input and output, for local clients.

The SDK's own loop drops the answers that are under way when the input ends, and does not let a client in
that opens without its name (SPEC 10.27). This one feeds the SDK's server and does neither.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from portal.mcp.frames import Frames
from portal.mcp.messages import INVALID_REQUEST, error, is_request, named
from portal.mcp.owed import Owed


async def serve_stdio(server: Server[Any], frames: Frames) -> None:
    """Until the input has ended and every request in it is answered."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    from_server, to_client = anyio.create_memory_object_stream[SessionMessage]()
    owed = Owed()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.run(from_client, from_server, server.create_initialization_options()))
        tasks.create_task(_write(to_client, frames, owed))
        async with to_server:
            await _read(frames, to_server, owed)
            await owed.settled()


async def _read(
    frames: Frames, to_server: MemoryObjectSendStream[SessionMessage | Exception], owed: Owed
) -> None:
    async for message in frames.messages():
        try:
            parsed = types.jsonrpc_message_adapter.validate_python(named(message), by_name=False)
        except ValidationError:
            frames.write(error(message.get("id"), INVALID_REQUEST, "This is not a JSON-RPC 2.0 message."))
            continue
        if is_request(message):
            owed.add(message["id"])
        elif message.get("method") == "notifications/cancelled":
            owed.answered((message.get("params") or {}).get("requestId"))  # it gets no answer
        await to_server.send(SessionMessage(parsed))


async def _write(to_client: MemoryObjectReceiveStream[SessionMessage], frames: Frames, owed: Owed) -> None:
    async with to_client:
        async for answer in to_client:
            message = answer.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            frames.write(message)
            if "method" not in message:
                owed.answered(message.get("id"))
