"""Deep research through a web session: our order into its inquiry, what was seen of it into ours.

Pure. The bytes are read in proxy.protocol; sections are perplexity-web's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from uuid import UUID

from proxy.protocol.delta import Done, FaultKind, ModelUsed, Progress, Source
from proxy.protocol.delta import Fault as WebFault
from proxy.protocol.inquiry import MOST_CHARACTERS, Inquiry, query_document
from proxy.protocol.trail import Trail
from proxy.protocol.verdicts import EFFECTS
from proxy.protocol.web_request import Recency
from research.protocol.outcome import (
    Ended,
    Fault,
    Fetched,
    Finished,
    Found,
    Order,
    Query,
    Refused,
    Running,
    Usage,
)
from research.protocol.wire_json import line, string
from research.protocol.wire_search import (
    LONGEST_DATE,
    LONGEST_QUERY,
    LONGEST_SNIPPET,
    LONGEST_TITLE,
    MOST_NUMBERED,
)

LONGEST_GOAL = 300
NO_BODY = "cover_note_only"
_RECENCY: dict[str, Recency] = {"day": "DAY", "week": "WEEK", "month": "MONTH", "year": "YEAR"}
_SOURCES = {"web": ("web",), "academic": ("scholar",)}
_FAULTS = {
    FaultKind.QUOTA: Fault.QUOTA,
    FaultKind.SIGNED_OUT: Fault.BAD_KEY,
    FaultKind.BLOCKED: Fault.FORBIDDEN,
    FaultKind.FORBIDDEN: Fault.FORBIDDEN,
    FaultKind.RATE_LIMITED: Fault.RATE_LIMITED,
    FaultKind.REJECTED: Fault.INVALID,
    FaultKind.UNAVAILABLE: Fault.OUTAGE,
    FaultKind.UNREACHABLE: Fault.UNREACHABLE,
    FaultKind.TIMED_OUT: Fault.LOST,
    FaultKind.REFUSED: Fault.OUTAGE,
    FaultKind.BROKEN: Fault.BROKEN,
    FaultKind.CUT: Fault.LOST,
    FaultKind.EMPTY: Fault.BROKEN,
    FaultKind.REWRITTEN: Fault.BROKEN,
    FaultKind.STOPPED: Fault.OUTAGE,
}
"""What a fault before the upstream has the question means for a run."""


def build_inquiry(order: Order) -> tuple[Inquiry, tuple[str, ...]] | Refused:
    """The inquiry, and the names of options that a web session cannot express (§4).

    Perplexity searches all of `query_str`, so nothing is said in it that need not be.
    """
    options, earlier = order.options, order.earlier
    instructions = options.instructions or ""
    question = query_document(order.question, instructions)
    if len(question) > MOST_CHARACTERS:
        return Refused(
            Fault.INVALID,
            f"The question has {len(question):,} characters; a web session takes {MOST_CHARACTERS:,}.",
        )
    inquiry = Inquiry(
        key=UUID(order.upstream_key),
        question=question,
        whole=_whole(order, instructions),
        sources=_SOURCES.get(options.search_mode or "web", ("web",)),
        language=options.language or "en-US",
        recency=_RECENCY.get(options.recency or ""),
        has_attachments=bool(options.attachments),
        follows=_uuid(earlier.upstream_id) if earlier and earlier.upstream_id else None,
    )
    return inquiry, tuple(_ignored(order))


def _ignored(order: Order) -> Iterable[str]:
    options = order.options
    if options.search_mode == "sec":
        yield "search_mode"
    if options.recency and options.recency not in _RECENCY:
        yield "search_recency_filter"
    if options.domains:
        yield "search_domain_filter"
    if options.after_date:
        yield "search_after_date_filter"
    if options.before_date:
        yield "search_before_date_filter"
    if options.reasoning_effort:
        yield "reasoning_effort"
    if options.model:
        yield "model"


def _whole(order: Order, instructions: str) -> str:
    """With what was said earlier, whose last answer is cut where it would not fit."""
    earlier = order.earlier
    if earlier is None:
        return query_document(order.question, instructions)
    *before, last = [{"role": role, "content": text} for role, text in earlier.said]

    def document(room: int) -> str:
        cut = {**last, "content": last["content"][:room]}
        return query_document(order.question, instructions, (*before, cut))

    # Some characters are two or six in the document: only the document itself tells what has room.
    rooms = range(len(last["content"]) + 1)
    fitting = bisect_right(rooms, MOST_CHARACTERS, key=lambda room: len(document(room)))
    return document(fitting - 1) if fitting else query_document(order.question, instructions)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def refused(message: str, fault: WebFault | None, retry_after: float | None = None) -> Refused:
    """Why no account has taken it, or why it cannot be looked at. Without a fault none is able to."""
    if fault is None:
        return Refused(Fault.BAD_KEY, message, retry_after)
    kind = Fault.LOST if fault.is_open else _FAULTS[fault.kind]
    return Refused(kind, message, retry_after)


def told(fault: WebFault) -> str:
    """A fault in a sentence for people."""
    message = EFFECTS[fault.kind].message
    return f"{message} ({fault.detail})" if fault.detail else message


def read_running(answer: Done, trail: Trail, progress: Progress | None) -> Running:
    return Running(
        queries=_queries(trail),
        fetched=_fetched(trail),
        found=_found(answer.sources, trail),
        text=string(answer.answer),
        percent=progress.percent if progress else None,
        eta=progress.eta_seconds if progress else None,
        goals=tuple(line(goal, LONGEST_GOAL) for goal in trail.goals),
    )


def read_finished(answer: Done, trail: Trail) -> Finished:
    """The cover note and the report body, under the numbers of the upstream's last list (§7, §8).

    A cover note that comes alone announces a report that is not there.
    """
    return Finished(
        text=string(answer.answer),
        complete=bool(answer.report),
        reason=None if answer.report else NO_BODY,
        found=_found(answer.sources, trail),
        queries=_queries(trail),
        fetched=_fetched(trail),
        steps=len(trail.queries) + len(trail.read),
        usage=Usage(searches=len(trail.queries)),
        model=_model(answer.model),
    )


def read_ended(answer: Done, trail: Trail, fault: WebFault) -> Ended:
    """It failed upstream, or was stopped there; with what there was of it."""
    partial = read_finished(answer, trail) if answer.answer.strip() else None
    is_stopped = fault.kind is FaultKind.STOPPED
    return Ended(told(fault), cancelled=is_stopped, partial=partial if is_stopped else None)


def _found(sources: Iterable[Source], trail: Trail) -> tuple[Found, ...]:
    """What marks can name, in its order; then every other page that a search has brought."""
    numbered = tuple(sources)
    named = {source.url for source in numbered}
    others = (source for url, source in trail.found.items() if url not in named)
    listed = [_page(source, place) for place, source in enumerate(numbered, 1) if source.url]
    return (*listed, *(_page(source) for source in others))


def _page(source: Source, number: int | None = None) -> Found:
    return Found(
        url=string(source.url),
        title=line(source.title, LONGEST_TITLE),
        snippet=string(source.snippet, LONGEST_SNIPPET).strip(),
        date=line(source.date, LONGEST_DATE) or None,
        number=number if number is not None and number <= MOST_NUMBERED else None,
    )


def _queries(trail: Trail) -> tuple[Query, ...]:
    """Which query brought which page is not told."""
    return tuple(Query(line(query, LONGEST_QUERY)) for query in trail.queries)


def _fetched(trail: Trail) -> tuple[Fetched, ...]:
    pages = ((url, trail.found.get(url)) for url in trail.read)
    return tuple(Fetched(string(url), line(page.title, LONGEST_TITLE) if page else "") for url, page in pages)


def _model(used: ModelUsed | None) -> str:
    return line(used.preference, 120) if used else ""
