"""One request's way back: its reply as ASGI messages, for as long as its client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from portal.api.handler import problem_of
from portal.api.replies import Answer, Download, Later, Reply, answer_of
from portal.api.streaming import (
    STREAM_HEADERS,
    ClientLeft,
    Message,
    Presence,
    Send,
    Stream,
    Wire,
    stopping,
    while_present,
)
from portal.wire.errors import Problem


@dataclass(frozen=True, slots=True)
class Exchange:
    """`extra` are headers that every answer has."""

    presence: Presence
    send: Send
    extra: Mapping[str, str]
    request_id: str
    path: str

    async def answer(self, reply: Reply, *, with_body: bool) -> None:
        """`with_body`: but for `HEAD`."""
        if self.presence.left:
            if isinstance(reply, Later | Stream) and reply.give_up is not None:
                await reply.give_up()
        elif isinstance(reply, Stream):
            await self.stream(reply)
        elif isinstance(reply, Download):
            await self.download(reply, with_body=with_body)
        elif isinstance(reply, Later):
            await self.wait(reply)
        else:
            await self.send_whole(reply, with_body=with_body)

    async def send_whole(self, answer: Answer, *, with_body: bool = True) -> None:
        length = {"Content-Type": "application/json", "Content-Length": str(len(answer.body))}
        kind = length if answer.status != 204 else {}
        await self.send(self._start(answer.status, {**kind, "Cache-Control": "no-store", **answer.headers}))
        await self.send({"type": "http.response.body", "body": answer.body if with_body else b""})

    async def wait(self, later: Later) -> None:
        try:
            async with while_present(self.presence):
                answer = await later.make()
        except ClientLeft:
            return
        except asyncio.CancelledError:  # by the stopping server, which would log whatever else it is told
            await self.send_whole(answer_of(stopping(), self.path))
            return
        except Exception as error:  # whatever it is, it becomes an answer
            answer = answer_of(problem_of(error, self.request_id), self.path)
        await self.send_whole(Answer(answer.body, answer.status, {**later.headers, **answer.headers}))

    async def download(self, file: Download, *, with_body: bool) -> None:
        """The server breaks off a connection whose answer was never ended: nobody takes a part for the
        whole."""
        length = {"Cache-Control": "no-store", "Content-Length": str(file.size)}
        start = self._start(200, {**length, **file.headers})
        if not with_body:
            await self.send(start)
            await self.send({"type": "http.response.body", "body": b""})
            return
        wire = Wire(self.send, start)
        try:
            async with while_present(self.presence, wire.check_reader), aclosing(file.pieces()) as pieces:
                async for piece in pieces:
                    await wire.write(piece)
        except ClientLeft:
            return
        except Exception as error:  # whatever it is, it becomes an answer, as long as none has begun
            problem = problem_of(error, self.request_id)
            if not wire.begun:
                await self.send_whole(answer_of(problem, self.path))
        else:
            await wire.end()

    async def stream(self, stream: Stream) -> None:
        wire = Wire(self.send, self._start(200, {**STREAM_HEADERS, **stream.headers}))
        try:
            async with while_present(self.presence, wire.breathe), aclosing(stream.pieces()) as pieces:
                async for piece in pieces:
                    await wire.write(piece)
        except ClientLeft:
            return
        except asyncio.CancelledError:  # as above
            await self._fail(wire, stream, stopping())
        except Exception as error:  # whatever it is, it becomes an answer
            await self._fail(wire, stream, problem_of(error, self.request_id))
        else:
            await wire.end()

    async def _fail(self, wire: Wire, stream: Stream, problem: Problem) -> None:
        """An error of its own while nothing was sent, else the stream's last words."""
        if wire.begun:
            return await wire.end(stream.last_words(problem))
        answer = answer_of(problem, self.path)
        return await self.send_whole(replace(answer, headers={**stream.headers, **answer.headers}))

    def _start(self, status: int, headers: Mapping[str, str]) -> Message:
        whole = {"X-Content-Type-Options": "nosniff", **headers, **self.extra}
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in whole.items()]
        return {"type": "http.response.start", "status": status, "headers": raw}
