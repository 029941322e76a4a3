"""The legacy transport: one event stream to the client, its messages by POST (HTTP+SSE, 2024-11-05).

It is deprecated, and served because the seed served it. The session belongs to the key that opened
it (mcp-server §3), and its messages may arrive at any web process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from portal.api.streaming import ClientLeft, Presence, Receive, Wire, while_present
from portal.live.ending import Ending
from portal.mcp.mailboxes import Mailboxes
from portal.mcp.owed import Owed
from portal.mcp.toolbox import Visit
from portal.wire.errors import BadRequest, NotFound, unavailable
from portal.wire.sse import encode_event

MOST_STREAMS = 500
"""Event streams of one process."""
CANCELLED = "notifications/cancelled"


class Letter(msgspec.Struct):
    """A message on its way to the process that has its stream, and who sent it."""

    visit: Visit
    message: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Letter).decode


@dataclass(slots=True)
class Streams:
    server: Server[Any]
    boxes: Mailboxes
    ending: Ending
    open: int = 0

    async def serve(self, visit: Visit, receive: Receive, wire: Wire) -> None:
        """Until the client leaves. Raises Unavailable while nothing was sent."""
        if self.open >= MOST_STREAMS:
            raise unavailable()
        session = uuid4().hex
        self.open += 1
        presence = Presence(receive)
        try:
            async with self.boxes.open(_box_of(visit, session)) as letters:
                with suppress(ClientLeft):
                    async with while_present(presence, wire.breathe):
                        # Relative: the address that the client came by may hold its key, ours shows none.
                        await wire.write(encode_event(f"messages/?session_id={session}", "endpoint"))
                        await self._exchange(letters, wire)
        finally:
            presence.end()
            self.open -= 1
        await wire.end()

    async def post(self, visit: Visit, session: str, body: bytes) -> None:
        """Raises BadRequest, NotFound and Unavailable."""
        try:
            types.jsonrpc_message_adapter.validate_json(body, by_name=False)
        except ValidationError:
            raise BadRequest("The body must be one JSON-RPC message.") from None
        letter = _encode(Letter(visit, msgspec.Raw(body)))
        if not await self.boxes.post(_box_of(visit, session), letter):
            raise NotFound("There is no such session.", code="not_found")

    async def _exchange(self, letters: AsyncIterator[bytes], wire: Wire) -> None:
        """Ends when there are no more letters: the server then has nobody to serve. When the process is to
        stop, it ends as soon as no answer is owed."""
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
        from_server, to_client = anyio.create_memory_object_stream[SessionMessage]()
        options = self.server.create_initialization_options()
        owed = Owed()
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self.server.run(from_client, from_server, options))
            tasks.create_task(_deliver(to_client, wire, owed))
            ends = [
                tasks.create_task(_hand_in(letters, to_server, owed)),
                tasks.create_task(self._end_of_process(owed)),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (*ends, serving):
                task.cancel()

    async def _end_of_process(self, owed: Owed) -> None:
        await self.ending.begun()
        await owed.settled()


async def _hand_in(
    letters: AsyncIterator[bytes],
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    owed: Owed,
) -> None:
    async with to_server:
        async for piece in letters:
            letter = _decode(piece)
            message = types.jsonrpc_message_adapter.validate_json(bytes(letter.message), by_name=False)
            if isinstance(message, types.JSONRPCRequest):
                owed.add(message.id)
            elif isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
                owed.answered((message.params or {}).get("requestId"))
            metadata = ServerMessageMetadata(request_context=letter.visit)
            await to_server.send(SessionMessage(message, metadata=metadata))


async def _deliver(to_client: MemoryObjectReceiveStream[SessionMessage], wire: Wire, owed: Owed) -> None:
    async with to_client:
        async for answer in to_client:
            said = answer.message.model_dump_json(by_alias=True, exclude_unset=True)
            await wire.write(encode_event(said, "message"))
            if isinstance(answer.message, types.JSONRPCResponse | types.JSONRPCError):
                owed.answered(answer.message.id)


def _box_of(visit: Visit, session: str) -> str:
    return f"{visit.who.key_id}.{session}"
