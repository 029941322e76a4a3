"""What a lean door answers: at once, later, as a stream of events, or as a file."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from portal.api.streaming import Stream
from portal.wire.errors import Problem
from portal.wire.gateway import encoded


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Later:
    """A plain answer that is still to be made: on the event loop, while the client waits for it. `give_up` is
    called in its place when the client has left by then: it releases what was opened."""

    make: Callable[[], Awaitable[Answer]]
    headers: Mapping[str, str] = field(default_factory=dict)
    give_up: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """`size` bytes, sent as they are read. What `pieces` raises before the first is an answer of its own;
    later it can only break the connection off."""

    pieces: Callable[[], AsyncGenerator[bytes, None]]
    size: int
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Answer | Later | Stream | Download


def answer_json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """`value` with a space after colon and comma: the seed's shell loop greps for it (SPEC 10.13)."""
    return Answer(json.dumps(value, ensure_ascii=False).encode(), status, headers or {})


def answer_of(problem: Problem, path: str) -> Answer:
    """As clients of this path read errors."""
    return Answer(encoded(problem, path), problem.status, problem.headers)
