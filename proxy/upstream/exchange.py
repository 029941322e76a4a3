"""What passes the seam to the web upstream's network: a request goes out, an open answer comes back. Both
clients keep to it (`plain`, `curl`); `transport` says which of them asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `headers` hold the credentials: clients have no jar of their own."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Reply(Protocol):
    """An open answer: its head is there, its body comes. It must be closed, whatever happens."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name; without `Set-Cookie`."""

    @property
    def set_cookies(self) -> tuple[str, ...]: ...

    @property
    def is_over(self) -> bool:
        """Whether all of the body was read: its connection serves the next request."""

    async def read(self) -> bytes:
        """What came of the body meanwhile, decoded; it waits for some. Empty at its end. Raises `Lost` when
        the connection breaks."""

    def break_off(self) -> None:
        """Whoever reads gets `Lost`."""

    async def close(self) -> None:
        """Close the connection, unless the body has ended. Never waits for the upstream."""


class Client(Protocol):
    async def open(self, request: Request) -> Reply:
        """Send and wait for the head. Raises `Unreachable`, `Lost`; a cancelled wait closes it."""

    async def close(self) -> None: ...


class Unreachable(Exception):
    """There was no connection: nothing was sent."""


class Lost(Exception):
    """The connection broke before the answer was whole."""
