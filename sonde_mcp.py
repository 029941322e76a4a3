#!/usr/bin/env python3
"""MCP on standard input and output, relayed to a Sonde portal: one file, Python 3.9 or newer, nothing else.

    SONDE_URL      the portal, such as https://sonde.example.org
    SONDE_API_KEY  a key with the scope mcp, and research or chat for the tools

Assistants start it; Connect in the portal shows their settings. On standard output there are frames only,
on standard error one line for whatever went wrong (SPEC 10.27, mcp-server §1, mcp-deep-research §5).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

Message = dict[str, Any]

INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NAMED_BY = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
SILENCE = 60.0
"""Seconds without a byte: the portal sends one every fifteen."""
LONGEST_LINE = 16 * 1024 * 1024
MOST_AT_ONCE = 32
UNNAMED = {"name": "unnamed", "version": "0"}


class Broken(Exception):
    """There is no answer to pass on. The text is for people."""


class Settings(Exception):
    """The environment does not say where to go. One line."""


class Portal:
    """Where requests go. The key leaves in a header only."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url.strip().rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Settings(
                "SONDE_URL: is needed: the address of the portal, such as https://sonde.example.org"
            )
        if (
            not key.strip().isascii()
            or not key.strip().isprintable()
            or " " in key.strip()
            or not key.strip()
        ):
            raise Settings("SONDE_API_KEY: is needed: a key of that portal with the scope mcp")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = f"{parts.path}/mcp"
        self._key = key.strip()
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def connect(self) -> http.client.HTTPConnection:
        """A connection that is open. Raises OSError."""
        if not self._secure:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=SILENCE)
        elif proxy := self._proxy():
            connection = http.client.HTTPSConnection(proxy[0], proxy[1], timeout=SILENCE)
            connection.set_tunnel(self._host, self._port)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=SILENCE)
        connection.connect()
        return connection

    def send(self, connection: http.client.HTTPConnection, message: Message, revision: str) -> None:
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers_of(message, revision),
        }
        connection.request("POST", self._path, encoded(message), headers)

    def _proxy(self) -> tuple[str, int | None] | None:
        """The machine's own, for what goes over TLS; anything else is in the house."""
        found = urllib.request.getproxies().get("https", "")
        if not found or urllib.request.proxy_bypass(self._host):
            return None
        parts = urlsplit(found if "://" in found else f"http://{found}")
        return (parts.hostname, parts.port) if parts.hostname else None


class Call:
    """A message on its way. Leaving it ends the call at the portal."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.is_left = False
        self._socket: socket.socket | None = None

    def hold(self, line: socket.socket | None) -> None:
        self._socket = line
        if self.is_left:
            self.leave()

    def leave(self) -> None:
        self.is_left = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Relay:
    """A thread for each message; every frame is written whole."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._output = sys.stdout.buffer
        sys.stdout = sys.stderr
        self._writing = threading.Lock()
        self._places = threading.Semaphore(MOST_AT_ONCE)
        self._revision = ""
        """What `initialize` agreed on."""
        self._under_way: dict[object, Call] = {}

    def run(self) -> None:
        """Until the input has ended and every request in it is answered."""
        threads: list[threading.Thread] = []
        for message in self._messages():
            if message.get("method") == "notifications/cancelled":
                self._cancel(message)
                continue
            self._places.acquire()
            call = Call(named(message))
            if is_request(message):
                self._under_way[message["id"]] = call
            thread = threading.Thread(target=self._forward, args=(call,), daemon=True)
            thread.start()
            threads = [*filter(threading.Thread.is_alive, threads), thread]
            if message.get("method") == "initialize":
                thread.join()  # what follows is in the revision that it agrees on
        for thread in threads:
            thread.join()

    def _messages(self) -> Iterator[Message]:
        """Until the end of input. A message with the id null is a notification."""
        for line in iter(lambda: sys.stdin.buffer.readline(LONGEST_LINE), b""):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                say("a line was skipped: it is not JSON")
                continue
            if not is_message(found):
                text = "This is not a single JSON-RPC 2.0 message."
                self._write(
                    {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": text}}
                )
                continue
            if "method" in found and found.get("id", 0) is None:
                del found["id"]
            yield found

    def _cancel(self, message: Message) -> None:
        """A call that was cancelled gets no answer."""
        params = message.get("params")
        wanted = params.get("requestId") if isinstance(params, dict) else None
        call = self._under_way.pop(wanted, None) if isinstance(wanted, (str, int)) else None
        if call is not None:
            call.leave()

    def _forward(self, call: Call) -> None:
        try:
            self._exchange(call)
        except Broken as problem:
            self._fail(call, str(problem))
        except (OSError, http.client.HTTPException) as problem:
            self._fail(call, f"The portal at {self._portal.name} does not answer ({type(problem).__name__}).")
        finally:
            to = call.message.get("id")
            if self._under_way.get(to) is call:
                del self._under_way[to]
            self._places.release()

    def _exchange(self, call: Call) -> None:
        connection = self._portal.connect()
        try:
            call.hold(connection.sock)
            self._portal.send(connection, call.message, self._revision)
            answer = connection.getresponse()
            if (answer.getheader("Content-Type") or "").startswith("text/event-stream"):
                self._read_events(call, answer)
            else:
                self._read_whole(call, answer.status, answer.read())
        finally:
            connection.close()

    def _read_events(self, call: Call, answer: http.client.HTTPResponse) -> None:
        is_answered = False
        for data in events_of(answer):
            is_answered = self._pass_on(call, data) or is_answered
        if not is_answered:
            raise Broken("The portal ended the call without an answer. Try again.")

    def _read_whole(self, call: Call, status: int, body: bytes) -> None:
        if status == 202 or not is_request(call.message):
            return
        try:
            self._pass_on(call, body)
        except Broken:
            raise Broken(words_of(status)) from None

    def _pass_on(self, call: Call, raw: bytes) -> bool:
        """Whether it was the answer. Raises Broken."""
        try:
            frame = json.loads(raw)
        except (ValueError, RecursionError):
            frame = None
        if not is_message(frame):
            raise Broken("The portal's answer cannot be read.")
        result = frame.get("result")
        if call.message.get("method") == "initialize" and isinstance(result, dict):
            self._revision = str(result.get("protocolVersion", ""))
        if "method" not in frame and frame.get("id") is None:
            frame["id"] = call.message.get("id")  # the portal could not tell whose it was, we can
        if not call.is_left:
            self._write(frame)
        return "method" not in frame

    def _fail(self, call: Call, text: str) -> None:
        """A tool's failure is for the model to read, any other for the client."""
        if call.is_left:
            return
        say(text)
        if not is_request(call.message):
            return
        answer: Message = {"jsonrpc": "2.0", "id": call.message["id"]}
        if call.message["method"] == "tools/call":
            self._write({**answer, "result": tool_error(call.message, text)})
        else:
            self._write({**answer, "error": {"code": INTERNAL_ERROR, "message": text}})

    def _write(self, frame: Message) -> None:
        with self._writing:
            try:
                self._output.write(encoded(frame) + b"\n")
                self._output.flush()
            except (BrokenPipeError, ValueError):
                say("nobody reads the answers any more")


def is_message(found: object) -> bool:
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        return False
    if not isinstance(found.get("id"), (str, int, type(None))) or isinstance(found.get("id"), bool):
        return False
    return isinstance(found.get("method"), str) or "result" in found or "error" in found


def is_request(message: Message) -> bool:
    """Whether an answer is owed: an id of 0 is one, null is none."""
    return "method" in message and message.get("id") is not None


def named(message: Message) -> Message:
    """The same, with a name for a client that opens without one."""
    params = message.get("params")
    if message.get("method") != "initialize" or not isinstance(params, dict) or params.get("clientInfo"):
        return message
    return {**message, "params": {**params, "clientInfo": UNNAMED}}


def headers_of(message: Message, revision: str) -> dict[str, str]:
    """A modern request carries its revision within; a legacy one has the session's."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    own = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(params, dict) or not own:
        return {"MCP-Protocol-Version": revision} if revision else {}
    method = str(message.get("method"))
    told = {"MCP-Protocol-Version": plain(own), "Mcp-Method": plain(method)}
    name = params.get(NAMED_BY.get(method, ""))
    return {**told, "Mcp-Name": plain(name)} if name else told


def plain(value: object) -> str:
    """What may stand in a header."""
    return "".join(letter for letter in str(value) if letter.isascii() and letter.isprintable())


def tool_error(message: Message, text: str) -> Message:
    result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    return {**result, "resultType": "complete"} if "Mcp-Method" in headers_of(message, "") else result


def events_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The data of each event, as it arrives. Pings are comments."""
    data: list[bytes] = []
    while line := answer.readline(LONGEST_LINE):
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].lstrip(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


def encoded(message: Message) -> bytes:
    """One line of ASCII."""
    return json.dumps(message, separators=(",", ":")).encode()


def words_of(status: int) -> str:
    """What to say to an answer of HTTP that is no message."""
    if status in (401, 403):
        return f"The portal refuses the key ({status}): check SONDE_API_KEY and its scopes."
    if status == 429:
        return "Too many requests for this key: wait a minute and try again."
    return f"The portal answered {status}. Check SONDE_URL."


def say(text: str) -> None:
    print(f"sonde_mcp: {text}", file=sys.stderr, flush=True)


def main() -> int:
    try:
        portal = Portal(os.environ.get("SONDE_URL", ""), os.environ.get("SONDE_API_KEY", ""))
    except (Settings, ValueError) as problem:  # ValueError: a port that is none
        say(str(problem) if isinstance(problem, Settings) else "SONDE_URL: is not an address")
        return 1
    try:
        Relay(portal).run()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
