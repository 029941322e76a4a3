"""What visitors do who are slow, silent or half there: over plain sockets, and pages' sockets."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

from bench.mixed.visitor import LONG, Broken, Visitor
from bench.mixed.visits import CHAT, chat_body

SMALL_BUFFER = 4096
JSON = "Content-Type: application/json"
FORM = "Content-Type: multipart/form-data; boundary=x"
HEAD_PATIENCE = 40.0
"""Seconds: for a head the portal waits 20, for a body 60, for a reader 50 once the answer has begun."""
BODY_PATIENCE = 90.0
READER_PATIENCE = 240.0


def head(visitor: Visitor, path: str, size: int) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {visitor.host}:{visitor.port}", JSON]
    lines += [f"Authorization: Bearer {visitor.key}", f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()


def request(visitor: Visitor, path: str, body: dict[str, Any]) -> bytes:
    raw = json.dumps(body).encode()
    return head(visitor, path, len(raw)) + raw


async def opened(visitor: Visitor) -> socket.socket:
    """A connection whose reader takes little at a time."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    one.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(one, (visitor.host, visitor.port))
    except OSError:
        one.close()
        raise
    return one


async def slow_reader(visitor: Visitor) -> str:
    """Takes a long stream in sips, then all the rest, or leaves."""
    _, question = visitor.question("huge=300", "huge=300 duration=12")
    loop = asyncio.get_running_loop()
    with await opened(visitor) as one:
        await loop.sock_sendall(one, request(visitor, CHAT, chat_body(question, stream=True)))
        came = b""
        for _ in range(30):
            came = (came + await loop.sock_recv(one, 2048))[-4096:]
            if b"HTTP/1.1 5" in came or b"HTTP/1.1 4" in came:
                return "refused"
            if b'"error"' in came:
                return "late"
            await asyncio.sleep(0.25)
        if visitor.chance.random() < 0.3:
            return "left"
        while b"[DONE]" not in came:
            data = await loop.sock_recv(one, 65536)
            if not data:
                return _end(visitor, "an answer to a slow reader that breaks off")
            came = (came + data)[-4096:]
            if b'"error"' in came:
                return "late"
    return "ok"


async def stalled_reader(visitor: Visitor) -> str:
    """Takes nothing of a long answer and stays: the portal has to give up."""
    _, question = visitor.question("huge=6000")
    loop = asyncio.get_running_loop()
    with await opened(visitor) as one:
        await loop.sock_sendall(one, request(visitor, CHAT, chat_body(question, stream=True)))
        return await _until_hung_up(visitor, one, READER_PATIENCE)


async def half_head(visitor: Visitor) -> str:
    with await opened(visitor) as one:
        await asyncio.get_running_loop().sock_sendall(one, head(visitor, CHAT, 100)[:60])
        return await _until_hung_up(visitor, one, HEAD_PATIENCE)


async def slow_body(visitor: Visitor) -> str:
    """A byte a second of a body, at a door of the API."""
    loop = asyncio.get_running_loop()
    with await opened(visitor) as one:
        await loop.sock_sendall(one, head(visitor, CHAT, 1000))
        hung_up = asyncio.create_task(_until_hung_up(visitor, one, BODY_PATIENCE))
        while not hung_up.done():
            try:
                await loop.sock_sendall(one, b" ")
            except OSError:
                break
            await asyncio.wait({hung_up}, timeout=1)
        return await hung_up


async def half_upload(visitor: Visitor) -> str:
    """Half a file, and gone."""
    form = (
        b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--x\r\n'
        b'Content-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
    )
    start = head(visitor, "/v1/files", 4_000_000).replace(JSON.encode(), FORM.encode())
    with await opened(visitor) as one:
        sending = asyncio.get_running_loop().sock_sendall(one, start + form + b"x" * 2_000_000)
        await asyncio.wait_for(sending, HEAD_PATIENCE)
        await asyncio.sleep(visitor.chance.uniform(0, 2))
    return "left"


async def abandoned(visitor: Visitor) -> str:
    """A stream whose reader is reset instead of closed."""
    tag, question = visitor.question(*LONG)
    loop = asyncio.get_running_loop()
    with await opened(visitor) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await loop.sock_sendall(one, request(visitor, CHAT, chat_body(question, stream=True)))
        await asyncio.sleep(visitor.chance.uniform(0.5, 6))
    visitor.leave(tag)  # its socket is closed
    return "left"


async def page_socket(visitor: Visitor) -> str:
    """A page's socket for a while; some vanish without a word."""
    where = f"{visitor.host}:{visitor.port}"
    headers = {"Cookie": f"sessionid={visitor.session}"}
    try:
        async with connect(
            f"ws://{where}/ws/", origin=Origin(f"http://{where}"), additional_headers=headers, proxy=None
        ) as page:
            async with asyncio.timeout(visitor.chance.uniform(3, 25)):
                while True:
                    await page.recv()
                    if visitor.chance.random() < 0.1:
                        page.transport.abort()
    except TimeoutError:
        return "ok"
    except (WebSocketException, OSError) as error:
        raise Broken(f"socket {type(error).__name__}") from None


async def _until_hung_up(visitor: Visitor, one: socket.socket, seconds: float) -> str:
    """Without reading a byte: what is unread stays unread."""
    poll = select.poll()
    poll.register(one, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        if poll.poll(0):
            return "hung up"
        await asyncio.sleep(0.5)
    return _end(visitor, f"nobody hung up in {seconds:.0f} s")


def _end(visitor: Visitor, what: str) -> str:
    if visitor.notes.may_break:
        raise Broken("broke off")
    visitor.notes.wrong(f"{visitor.kind}: {what}")
    return "wrong"
