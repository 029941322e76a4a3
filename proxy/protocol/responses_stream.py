"""Deltas → the events of one response (openai-compat §3.4, proxy-contract §8.6).

    stream = ResponseStream(head)
    stream.open()              response.created, response.in_progress
    stream.feed(deltas) …      items and their deltas; may be fed anything, in any order
    stream.complete(closing)   or fail(problem), or cancel(): what is open is closed, and the one last event

A search or a page that the upstream tells of is a `web_search_call` item; its plans and findings are
lines of a reasoning item; items follow one another as the steps did. A step that comes after the text
has begun gets an item of its own behind the message, which stays open. The text is trimmed, as it is
in a plain answer. All state can be had from the events alone (`restored`), so that another process
goes on where one died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.wire.errors import Problem
from proxy.protocol.delta import Delta, Done
from proxy.protocol.response_object import FunctionCall, Head, Json, Usage


@dataclass(frozen=True, slots=True)
class Event:
    """One event, encoded once. `data` is its JSON on one line."""

    sequence_number: int
    type: str
    data: bytes

    def encode(self) -> bytes:
        """The record of the event stream."""
        return b"event: %b\ndata: %b\n\n" % (self.type.encode(), self.data)


@dataclass(frozen=True, slots=True)
class Closing:
    """What is only known when the answer is whole. `query_characters` were sent upstream."""

    completed_at: int
    query_characters: int
    done: Done | None = None
    """Its citations become annotations. None for an answer of the function bridge."""
    appendix: str = ""
    """Notices and footer, behind the text."""
    sonde: Mapping[str, Any] = field(default_factory=dict)


class ResponseStream:
    """Makes the events of one response, in order, numbered from 0."""

    def __init__(self, head: Head, *, include_sources: bool = False) -> None:
        raise NotImplementedError

    @classmethod
    def restored(
        cls, head: Head, events: Iterable[Event], *, include_sources: bool = False
    ) -> ResponseStream:
        """The stream as it stood after `events`, which must be all of them from 0 on."""
        raise NotImplementedError

    @property
    def over(self) -> bool:
        """Whether the terminal event was made: nothing may follow it."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text so far."""
        raise NotImplementedError

    @property
    def response(self) -> Json:
        """The whole object as the last lifecycle event told it: after the terminal one, what to store."""
        raise NotImplementedError

    def open(self, *, queued: bool = False) -> list[Event]:
        """The first events. A queued response goes on with `begin` once somebody works at it."""
        raise NotImplementedError

    def begin(self) -> list[Event]:
        """`response.in_progress`; nothing when it was told already."""
        raise NotImplementedError

    def feed(self, deltas: Sequence[Delta]) -> list[Event]:
        """What a read of the upstream says to the client: often nothing."""
        raise NotImplementedError

    def call(self, functions: Sequence[FunctionCall]) -> list[Event]:
        """Function calls, each whole at once (proxy-contract §9)."""
        raise NotImplementedError

    def complete(self, closing: Closing) -> list[Event]:
        """The rest, and `response.completed`."""
        raise NotImplementedError

    def fail(self, problem: Problem, usage: Usage | None = None) -> list[Event]:
        """What is open is closed as it stands, then `response.failed`."""
        raise NotImplementedError

    def cancel(self, usage: Usage | None = None) -> list[Event]:
        """There is no event for a cancelled response: `response.incomplete`, with status cancelled."""
        raise NotImplementedError


def interrupted(problem: Problem) -> bytes:
    """The last words of a connection whose response goes on without it: both SDKs raise it.

    It is no event and has no number, so whoever resumes misses nothing (openai-compat §1.4).
    """
    raise NotImplementedError
