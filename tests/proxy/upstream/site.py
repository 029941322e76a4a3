"""A server on this machine that tests take for the public internet, and guards that do so too."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from portal.http import Guard
from portal.wire.addresses import is_public

HOST = "files.example.org"
HERE = "127.0.0.1"


@dataclass(slots=True)
class Site:
    """Answers each path with what it was told to."""

    port: int = 0
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def gives(self, path: str, body: bytes = b"", status: int = 200, **headers: str) -> str:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join(
            [f"HTTP/1.1 {status} Fine", f"content-length: {len(body)}", "connection: close", *lines]
        )
        self.answers[path] = head.encode() + b"\r\n\r\n" + body
        return f"https://{HOST}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            writer.write(self.answers[head.split()[1]])
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[Site]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    site = Site()
    server = await asyncio.start_server(site.serve, HERE, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


def guard_of(
    site: Site, certificate: Path, names: Callable[[str], Sequence[str]] = lambda _: [HERE]
) -> Guard:
    """It resolves as the test says, and allows this machine's address, but no other private one."""

    async def resolve(host: str) -> Sequence[str]:
        return names(host)

    def allows(address: str) -> bool:
        return address == HERE or is_public(address)

    return Guard(resolve, allows, ssl.create_default_context(cafile=certificate), site.port)
