"""The inner language: what an upstream answer is made of, whatever shape it came in.

    bytes → wire.sse → web_events → finishing → chat_stream
                            └── Delta ──┘   Delta, cleaned

A stream of deltas ends with exactly one `Done` or `Fault`; nothing follows it. Every floor above
the wire speaks this language only, so a second upstream needs no second door.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import msgspec


@dataclass(frozen=True, slots=True)
class Source:
    """A page the upstream names. Absent text is ""; `date` is as the upstream writes it."""

    url: str
    title: str = ""
    snippet: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Thread:
    """Where an answer lives upstream; "" is unknown. Everything here is as secret as a session."""

    entry: str = ""
    """`backend_uuid`: this answer; follow-up, resume and stop need it."""
    context: str = ""
    token: str = ""
    """`read_write_token`: constant in a thread, missing in its first frames."""
    slug: str = ""


class Text(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the answer. A struct, since hundreds may come in one read."""

    text: str


Activity = Literal["searching", "reading", "planning", "found"]
_PREFIX: dict[Activity, str] = {"searching": "Searching: ", "reading": "Reading: ", "planning": ""}


@dataclass(frozen=True, slots=True)
class Reasoning:
    """One step on the way. `subject` is the query, the address read or found, or the goal."""

    activity: Activity
    subject: str
    title: str = ""

    @property
    def line(self) -> str:
        """The words that clients see (proxy-contract §4.5), without a line end."""
        if self.activity == "found":
            return f"Found: [{self.title}]({self.subject})"
        return _PREFIX[self.activity] + self.subject


@dataclass(frozen=True, slots=True)
class SourceFound:
    """Source `number` (from 1) of the list as it stands, which has `total`.

    A later one with the same number replaces it.
    """

    number: int
    total: int
    source: Source


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """The preference id that really answers. Once `substituted`, it stays so."""

    preference: str
    substituted: bool


@dataclass(frozen=True, slots=True)
class ThreadKnown:
    """The thread as far as it is known: told again when more of it becomes known."""

    thread: Thread


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a long run: percent done and seconds to go, where the upstream says so."""

    percent: int | None
    eta_seconds: int | None


@dataclass(frozen=True, slots=True)
class Citation:
    """A stretch of the cleaned answer (code points, half-open) and the page it rests on."""

    start: int
    end: int
    source: Source


@dataclass(frozen=True, slots=True)
class Checks:
    """Marks of an answer that no citation stands for, as `[9]`; each once, in order of the text."""

    out_of_range: tuple[str, ...] = ()
    """No source has the number: the mark is left in the text."""
    unattributed: tuple[str, ...] = ()
    """Its source has no web address."""


@dataclass(frozen=True, slots=True)
class Done:
    """The one success. `answer` is the whole text as the upstream ended it, citation marks included.

    A deep-research body (`report`, "" for none) is part of `answer`, after the cover note.
    `citations` and `checks` are known only once the answer is cleaned.
    """

    answer: str
    sources: tuple[Source, ...] = ()
    thread: Thread = Thread()
    model: ModelUsed | None = None
    report: str = ""
    citations: tuple[Citation, ...] = ()
    checks: Checks = Checks()


class FaultKind(StrEnum):
    QUOTA = "quota"  # the account has no use of this model left
    SIGNED_OUT = "signed_out"  # the session is no session any more
    BLOCKED = "blocked"  # Cloudflare, not Perplexity
    FORBIDDEN = "forbidden"  # Perplexity's own 403: only a session check tells what it means
    RATE_LIMITED = "rate_limited"
    REJECTED = "rejected"  # the request or its model is not accepted
    UNAVAILABLE = "unavailable"  # the upstream or its edge is down
    UNREACHABLE = "unreachable"  # no connection
    TIMED_OUT = "timed_out"
    REFUSED = "refused"  # an error inside a 200
    BROKEN = "broken"  # not the stream we know
    CUT = "cut"  # ended before its end
    EMPTY = "empty"
    REWRITTEN = "rewritten"  # the end contradicts what was already sent
    STOPPED = "stopped"  # somebody ended it upstream


@dataclass(frozen=True, slots=True)
class Fault:
    """The one failure. `detail` is the upstream's own sentence, masked and short, or ""."""

    kind: FaultKind
    detail: str = ""
    retry_after: int | None = None
    """Seconds, where the upstream named them."""
    param: str | None = None
    """The request's field that it is about, where it is not about the question itself."""
    is_open: bool = field(default=False, compare=False)
    """The edge gave up waiting: whether the question arrived is not known."""


Delta = Text | Reasoning | SourceFound | ModelUsed | ThreadKnown | Progress | Done | Fault
