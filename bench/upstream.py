"""The upstream of the benchmark: the cheapest server that speaks both languages, so that it measures others.

    python -m bench.upstream PORT [TLS_PORT CERTIFICATE]

`POST /rest/sse/perplexity_ask` answers as the web site does, `POST /v1/chat/completions` as OpenAI does.
A marker in the question shapes the answer: `[bench:chunks=8;first=50;gap=200]` is eight pieces, the first
after 50 ms, 200 ms between two; 0 is at once, and pieces without a gap go out in one write.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from dataclasses import dataclass
from functools import cache, partial
from typing import cast

import uvloop

PREFERENCE = re.compile(rb'"model_preference": ?"(\w+)"')
MARKER = re.compile(rb"\[bench:chunks=(\d+);first=(\d+);gap=(\d+)\]")
WORDS = "The tide follows the moon, and the harbour follows the tide. "
WEB_PATH = b"/rest/sse/perplexity_ask"
CHAT_PATH = b"/v1/chat/completions"
SIGNED_IN = {"user": {"id": "bench", "email": "bench@example.org", "subscription_tier": "pro"}}
SMALL = {
    b"/api/auth/session": SIGNED_IN,
    b"/rest/rate-limit/all": {"remaining_pro": 100_000_000, "remaining_research": 100_000},
}


@dataclass(frozen=True, slots=True)
class Play:
    """How an answer goes out: `head`, then each piece after its pause, in seconds."""

    head: bytes
    pieces: tuple[tuple[float, bytes], ...]


def piece(place: int) -> str:
    start = place * 7 % len(WORDS)
    return (WORDS[start:] + WORDS[:start])[:24]


@cache
def play(path: bytes, streams: bool, model: str, chunks: int, first: int, gap: int) -> Play:
    """Made once for each kind of question; what costs nothing then does not blur what is measured."""
    parts = (
        _web(model, chunks)
        if path == WEB_PATH
        else _chat_stream(chunks)
        if streams
        else [_chat_plain(chunks)]
    )
    kind = b"text/event-stream" if streams else b"application/json"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind
    if gap == 0:
        parts = [b"".join(parts)]
    pauses = [first / 1000, *[gap / 1000] * (len(parts) - 1)]
    sent = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    sent[-1] += b"0\r\n\r\n"
    return Play(head, tuple(zip(pauses, sent, strict=True)))


def _web(model: str, chunks: int) -> list[bytes]:
    common = {"backend_uuid": "b-1", "read_write_token": "rw-1", "display_model": model}

    def frame(block: dict[str, object], **more: object) -> bytes:
        blocks = [{"intended_usage": "ask_text", "markdown_block": block}]
        body = json.dumps({**common, "status": "PENDING", **more, "blocks": blocks}, separators=(",", ":"))
        return f"event: message\r\ndata: {body}\r\n\r\n".encode()

    texts = [piece(place) for place in range(chunks)]
    frames = [
        frame({"progress": "IN_PROGRESS", "chunks": [text], "chunk_starting_offset": place})
        for place, text in enumerate(texts)
    ]
    done = {"progress": "DONE", "chunks": texts, "chunk_starting_offset": 0, "answer": "".join(texts)}
    end = {"status": "COMPLETED", "final": True, "text_completed": True, "final_sse_message": True}
    frames[-1] += frame(done, **end) + b"event: end_of_stream\r\ndata: {}\r\n\r\n"
    return frames


def _chat_stream(chunks: int) -> list[bytes]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}

    def frame(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**common, 'choices': [choice]}, separators=(',', ':'))}\n\n".encode()

    frames = [frame({"content": piece(place)}) for place in range(chunks)]
    frames[0] = frame({"role": "assistant", "content": ""}) + frames[0]
    frames[-1] += frame({}, "stop") + b"data: [DONE]\n\n"
    return frames


def _chat_plain(chunks: int) -> bytes:
    message = {"role": "assistant", "content": "".join(piece(place) for place in range(chunks))}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "bench"}
    return json.dumps({**body, "choices": [choice], "usage": usage}).encode()


class Connection(asyncio.Protocol):
    """One kept connection; requests come one after another, as HTTP clients send them."""

    def __init__(self) -> None:
        self.read = bytearray()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, end, body = bytes(self.read).partition(b"\r\n\r\n")
        if not end:
            return
        size = re.search(rb"(?i)content-length: *(\d+)", head)
        if len(body) < (int(size[1]) if size else 0):
            return
        self.read.clear()
        self.answer(head.split(b" ", 2)[1].partition(b"?")[0], body)

    def answer(self, path: bytes, body: bytes) -> None:
        if path not in (WEB_PATH, CHAT_PATH):
            self.transport.write(_small(path))
            return
        found = MARKER.search(body)
        chunks, first, gap = (int(number) for number in found.groups()) if found else (8, 0, 0)
        streams = path == WEB_PATH or b'"stream": true' in body or b'"stream":true' in body
        model = PREFERENCE.search(body)
        shown = play(path, streams, model[1].decode() if model else "turbo", max(chunks, 1), first, gap)
        if first == gap == 0:
            self.transport.write(shown.head + shown.pieces[0][1])
        else:
            self.task = asyncio.get_running_loop().create_task(self.stream(shown))

    async def stream(self, shown: Play) -> None:
        """Each piece at its time, counted from the question: being late once delays no other."""
        head, loop = shown.head, asyncio.get_running_loop()
        due = loop.time()
        for pause, part in shown.pieces:
            due += pause
            await asyncio.sleep(due - loop.time())
            self.transport.write(head + part)
            head = b""

    def connection_lost(self, error: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()


def _small(path: bytes) -> bytes:
    body = json.dumps(SMALL.get(path, {})).encode()
    status = b"200 OK" if path in SMALL else b"404 Not Found"
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


async def serve(port: int, tls_port: int = 0, certificate: str = "") -> None:
    listen = partial(asyncio.get_running_loop().create_server, Connection, "127.0.0.1", backlog=4096)
    if tls_port:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        await (await listen(port=tls_port, ssl=tls)).start_serving()
    server = await listen(port=port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    port, tls_port, certificate = [*sys.argv[1:], "0", ""][:3]
    uvloop.run(serve(int(port), int(tls_port), certificate))
