"""Standard input and output relayed to a portal's `/mcp`: frames in, the portal's frames out.

Nothing is understood but what HTTP has to know: which revision, which method, which name (mcp-server §1).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Mapping

from portal.http import AsyncClient, HTTPError, Response, Timeout, async_client
from portal.mcp.frames import Frames
from portal.mcp.messages import (
    INTERNAL_ERROR,
    Message,
    NotAMessage,
    encoded,
    error,
    is_request,
    named,
    read_message,
)
from portal.wire.sse import SseDecoder, SseTooLong
from portal.wire.tools import refused

log = logging.getLogger(__name__)

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NAMED_BY = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
MARK = "=?base64?"
SILENCE = 60.0
"""Seconds without a byte: the portal sends one every fifteen."""


class Relay:
    def __init__(self, url: str, key: str, frames: Frames) -> None:
        self._url = f"{url}/mcp"
        self._frames = frames
        self._client: AsyncClient = async_client(
            headers={"Authorization": f"Bearer {key}"}, timeout=Timeout(SILENCE, connect=10.0)
        )
        self._revision = ""
        """What `initialize` agreed on."""
        self._under_way: dict[object, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the input has ended and every request in it is answered."""
        async with self._client, asyncio.TaskGroup() as tasks:
            async for message in self._frames.messages():
                if message.get("method") == "notifications/cancelled":
                    self._cancel(message.get("params"))
                    continue
                task = tasks.create_task(self._forward(named(message)))
                if is_request(message):
                    self._under_way[message["id"]] = task
                if message.get("method") == "initialize":
                    await asyncio.wait({task})  # what follows is in the revision that it agrees on

    def _cancel(self, params: object) -> None:
        """Leaving ends the call at the portal; a call that was cancelled gets no answer."""
        request = _object(params).get("requestId")
        task = self._under_way.pop(request, None) if isinstance(request, str | int) else None
        if task is not None:
            task.cancel()

    async def _forward(self, message: Message) -> None:
        try:
            await self._exchange(message)
        except HTTPError as problem:
            log.warning("the portal was not reached: %s", type(problem).__name__)
            self._fail(message, f"The portal at {self._url} does not answer ({type(problem).__name__}).")
        except (NotAMessage, SseTooLong):
            self._fail(message, "The portal's answer cannot be read.")
        except Exception as problem:  # whatever it is, the other calls go on
            log.warning("a message was not passed on: %s", type(problem).__name__)
            self._fail(message, "This cannot be passed on to the portal.")
        finally:
            if self._under_way.get(message.get("id")) is asyncio.current_task():
                del self._under_way[message.get("id")]

    async def _exchange(self, message: Message) -> None:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self._headers(message),
        }
        async with self._client.stream(
            "POST", self._url, content=encoded(message), headers=headers
        ) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                await self._read_events(message, answer)
            else:
                self._read_whole(message, answer.status_code, await answer.aread())

    def _headers(self, message: Message) -> Mapping[str, str]:
        """A modern request carries its revision within; a legacy one has the session's."""
        params = _object(message.get("params"))
        own = _object(params.get("_meta")).get(VERSION_KEY)
        if not own:
            return {"MCP-Protocol-Version": self._revision} if self._revision else {}
        name = params.get(NAMED_BY.get(str(message.get("method")), ""), "")
        told = {"MCP-Protocol-Version": str(own), "Mcp-Method": str(message.get("method"))}
        return {**told, "Mcp-Name": _in_header(str(name))} if name else told

    async def _read_events(self, message: Message, answer: Response) -> None:
        decoder, is_answered = SseDecoder(), False
        async for piece in answer.aiter_bytes():
            for record in decoder.feed(piece):
                is_answered = self._pass_on(message, record.data) or is_answered
        if not is_answered:
            self._fail(message, "The portal ended the call without an answer. Try again.")

    def _read_whole(self, message: Message, status: int, body: bytes) -> None:
        if status == 202 or not is_request(message):
            return
        try:
            self._pass_on(message, body)
        except NotAMessage:
            self._fail(message, _words_of(status, body))

    def _pass_on(self, message: Message, raw: bytes) -> bool:
        """Whether it was the answer. Raises NotAMessage."""
        frame = read_message(raw)
        if message.get("method") == "initialize" and isinstance(frame.get("result"), dict):
            self._revision = str(frame["result"].get("protocolVersion", ""))
        if "method" not in frame and frame.get("id") is None:
            frame["id"] = message.get("id")  # the portal could not tell whose it was, we can
        self._frames.write(frame)
        return "method" not in frame

    def _fail(self, message: Message, text: str) -> None:
        """A tool's failure is for the model to read, any other for the client."""
        if not is_request(message):
            return
        if message["method"] == "tools/call":
            self._frames.write(
                {"jsonrpc": "2.0", "id": message["id"], "result": self._tool_error(message, text)}
            )
        else:
            self._frames.write(error(message["id"], INTERNAL_ERROR, text))

    def _tool_error(self, message: Message, text: str) -> Message:
        is_modern = "Mcp-Method" in self._headers(message)
        return {
            **refused(text, code="unavailable").body(),
            **({"resultType": "complete"} if is_modern else {}),
        }


def _object(value: object) -> Message:
    """Nothing is taken for granted of what a client sends."""
    return value if isinstance(value, dict) else {}


def _in_header(name: str) -> str:
    """What HTTP would not carry goes in base64, between the protocol's own marks."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith(MARK):
        return name
    return f"{MARK}{b64encode(name.encode()).decode()}?="


def _words_of(status: int, body: bytes) -> str:
    """What to say to an answer of HTTP that is no message: a key that opens nothing, for one."""
    if status in (401, 403):
        return f"The portal refuses the key ({status}): check SONDE_API_KEY and its scopes."
    if status == 429:
        return "Too many requests for this key: wait a minute and try again."
    return f"The portal answered {status}. Check SONDE_URL."
