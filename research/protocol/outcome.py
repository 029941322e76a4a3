"""What a backend is asked, and what it can answer: the inner language of research.

Every backend turns its upstream's wire shapes into these values and nothing else crosses
the floor. Pure data: no Django, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

Provenance = Literal["cited", "retrieved", "recovered"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked for beside the question; None and () mean "not asked"."""

    instructions: str | None = None
    search_mode: Literal["web", "academic", "sec"] | None = None
    recency: Literal["hour", "day", "week", "month", "year"] | None = None
    domains: tuple[str, ...] = ()
    after_date: str | None = None
    """MM/DD/YYYY, as both upstreams take it."""
    before_date: str | None = None
    reasoning_effort: str | None = None
    model: str | None = None
    language: str | None = None
    attachments: tuple[str, ...] = ()
    """What tells each thing attached from all others: the id of a file, an address, or a digest."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Options:
        """As a run keeps them; what was not known when it was kept was not asked for."""
        lists = {name: tuple(stored.get(name, ())) for name in ("domains", "attachments")}
        return cls(**{**stored, **lists})


@dataclass(frozen=True, slots=True)
class Earlier:
    """What this run goes on from: a run's question and report, or what was said in a chat."""

    question: str = ""
    report: str = ""
    upstream_id: str | None = None
    """The earlier job's name upstream, when the same backend is asked again; else None."""
    chat: tuple[tuple[str, str], ...] = ()
    """Role and text of each turn."""

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """Role and text of all of it, in order."""
        return self.chat or (("user", self.question), ("assistant", self.report))


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that goes with the question. It is at `url`, or is `data`, in base64, of `content_type`."""

    name: str
    is_picture: bool = False
    content_type: str = ""
    data: str = ""
    url: str = ""

    @property
    def data_url(self) -> str:
        return f"data:{self.content_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class Order:
    """One run as a backend sees it."""

    question: str
    options: Options
    parameters: dict[str, Any]
    """The preset's parameters for this backend, copied into the run at admission."""
    upstream_key: str
    """Idempotency key, stored before the first attempt; sent where the upstream takes one."""
    earlier: Earlier | None = None
    attached: tuple[Attached, ...] = ()
    """For backends whose own request carries it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A page the research used. `number` is 1-based and unique within a report."""

    number: int
    url: str
    """"" when the upstream's address must not become a link."""
    title: str
    provenance: Provenance
    snippet: str = ""
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A search the upstream made, with the URLs it brought, in order.

    Where several were made in one step and the pages are not told apart, the first has them all.
    """

    text: str
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page the upstream opened and read."""

    url: str
    title: str = ""
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money as the upstream counted them. `cost` is exact, in US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    searches: int | None = None
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A retrieved source as the upstream listed it, before numbering and provenance.

    `number` is the upstream's own running number when it gives one (Agent API `id`,
    position in Sonar's `search_results`), else None.
    """

    url: str
    title: str = ""
    snippet: str = ""
    date: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The upstream took the job and named it."""

    upstream_id: str
    ignored: tuple[str, ...] = ()
    """Names of options this backend cannot honour; said in the run, never dropped silently."""


@dataclass(frozen=True, slots=True)
class Running:
    """The job goes on. Counts and lists are totals so far, not increments."""

    queries: tuple[Query, ...] = ()
    fetched: tuple[Fetched, ...] = ()
    found: tuple[Found, ...] = ()
    text: str = ""
    """Answer text so far; "" when the upstream shows none before the end."""
    percent: int | None = None
    eta: int | None = None
    """Seconds to go, where the upstream says so."""
    goals: tuple[str, ...] = ()
    """What it has set out to do, in its own words."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The job ended and delivered text, whole or cut short."""

    text: str
    """The upstream's text as it came, think-blocks included."""
    complete: bool = True
    reason: str | None = None
    """Why it is incomplete: `max_output_tokens`, `time_budget`, … ; None when complete."""
    found: tuple[Found, ...] = ()
    queries: tuple[Query, ...] = ()
    fetched: tuple[Fetched, ...] = ()
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model that really answered, in the upstream's words."""
    simulated: bool = False
    """The upstream says itself that it only pretends."""


class Fault(StrEnum):
    """Why an upstream call did not do what was asked."""

    RETIRED = "retired"  # 403: this upstream API no longer exists
    ORGANISATION_KEY = "organisation_key"  # 403: the key is an organisation's, not a project's
    FORBIDDEN = "forbidden"  # 403: any other refusal of this account
    BAD_KEY = "bad_key"  # 401, or no key configured
    QUOTA = "quota"  # 402: the upstream account is out of money
    RATE_LIMITED = "rate_limited"  # 429
    OUTAGE = "outage"  # 5xx answered: refused before acceptance
    ABSENT = "absent"  # nobody has set this backend up
    BUSY = "busy"  # nobody there has a free hand now: nothing is left of the attempt
    UNREACHABLE = "unreachable"  # no connection was made: nothing was sent
    LOST = "lost"  # sent, but the answer was lost or unreadable: open question
    INVALID = "invalid"  # 400, 413, 422: the request itself is refused
    GONE = "gone"  # 404 on a known id: expired or forgotten upstream
    TERMINAL = "terminal"  # 400 on cancel: nothing left to stop
    BROKEN = "broken"  # 200 with a body that breaks the contract


@dataclass(frozen=True, slots=True)
class Refused:
    """An upstream call failed. `message` is the upstream's own words, redacted and cut."""

    fault: Fault
    message: str
    retry_after: float | None = None
    """Seconds, as the upstream asked."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job ended upstream without a report: failed, or cancelled by somebody."""

    message: str
    cancelled: bool = False
    partial: Finished | None = None
    """What it had delivered when it stopped, sources included; None when there was no text."""


Submission = Submitted | Refused
Snapshot = Running | Finished | Ended | Refused
Stop = Literal["stopping", "unsupported"] | Refused
