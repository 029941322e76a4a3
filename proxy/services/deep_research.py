"""Deep research at the pool's web sessions, until the upstream has it. What follows is in deep_watch.

    begin   take an account's place, ask, read on until the thread is known and sealed, let go
    trace   what an attempt whose process died has left upstream

The upstream goes on when its client leaves (perplexity-web §15). All of this runs on an event loop;
each visit to the database is one short piece of work in a thread. An attempt writes to its row only while
it holds the place that it took: a worker whose lease was over changes nothing of what came after it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.services.transactions import insist
from portal.wire.crash import crashpoint
from portal.wire.errors import Problem, RateLimited
from proxy.models.accounts import WebAccount
from proxy.models.research import DeepResearch
from proxy.protocol.delta import Fault, FaultKind, Thread
from proxy.protocol.inquiry import Inquiry
from proxy.protocol.verdicts import EFFECTS
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_request import RESEARCH, Ask
from proxy.services.accounts import (
    is_anyone_busy,
    note_fault,
    note_research,
    pool,
    session_of,
    take_account,
    why_none,
)
from proxy.services.deep_attachments import bring
from proxy.services.deep_threads import Reading, let_go, model_of, open_answer, sealed, thread_of
from proxy.services.deep_watch import HOLD
from proxy.services.threads import in_thread
from proxy.upstream import web
from proxy.upstream.web import Opened, Session

State = DeepResearch.State
SENDING = timedelta(seconds=60)
"""How long a place is held for a question on its way."""
SHARE_OF_FILES = 0.5
"""What of the wait for the upstream the files may take: to ask takes the rest."""
TOKEN_SECONDS = 3.0
"""What is waited for a thread's token once its entry is known: the first two frames have none."""
_KEPT_AS_IT_WAS = frozenset({FaultKind.UNAVAILABLE, FaultKind.REFUSED})
"""Faults that do not change the account: it would be taken again."""
_OPEN_QUESTION = frozenset({FaultKind.CUT, FaultKind.TIMED_OUT, FaultKind.BROKEN})
_REFUSALS = frozenset({FaultKind.QUOTA, FaultKind.SIGNED_OUT, FaultKind.RATE_LIMITED})
"""Inside a stream these are no research, even where an entry was made for them."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The upstream has it. `id` names it from now on."""

    id: UUID


@dataclass(frozen=True, slots=True)
class NotBegun:
    """Why not, for people. `is_busy`: another account, or this one later, may take it.

    `fault`: what the last account met. Without any of these no account is able to.
    """

    message: str
    is_busy: bool = False
    is_used_up: bool = False
    fault: Fault | None = None
    retry_after: float | None = None


_TAKEN = NotBegun("Another worker is at it.", is_busy=True)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A place that was taken, and what is asked there. `row.held_until` is the proof that it is ours."""

    row: DeepResearch
    session: Session
    ask: Ask


class _Superseded(Exception):
    """Somebody else has the question by now."""


async def begin(inquiry: Inquiry, seconds: float) -> Begun | NotBegun:
    """Ask one account. `seconds` bound the wait for the upstream, not the database's work."""
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        plan = await in_thread(partial(_take_place, inquiry))
    except (OperationalError, InterfaceError):
        return NotBegun("The database is away.", is_busy=True)
    if isinstance(plan, NotBegun):
        return plan
    brought = await _with_attachments(plan, inquiry, seconds * SHARE_OF_FILES)
    if not isinstance(brought, _Plan):
        return brought
    plan, answer = brought, WebAnswer(RESEARCH)
    try:
        async with asyncio.timeout_at(deadline):
            fault = await _send(plan, answer)
    except TimeoutError:
        fault = None if answer.thread.entry else Fault(FaultKind.TIMED_OUT)
    except _Superseded:
        return _TAKEN
    if fault is not None:
        return await in_thread(partial(insist, partial(_refused, plan, fault)))
    return Begun(plan.row.pk)


async def _with_attachments(plan: _Plan, inquiry: Inquiry, seconds: float) -> _Plan | NotBegun:
    """The plan with its attachments at the account that it asks; until then nothing was asked."""
    if not inquiry.has_attachments:
        return plan
    try:
        async with asyncio.timeout(seconds):
            brought = await bring(plan.session, inquiry.key)
    except TimeoutError:
        brought = Fault(FaultKind.UNAVAILABLE)
    except Problem as problem:
        await in_thread(partial(_give_back, plan.row))
        return NotBegun(problem.message, fault=Fault(FaultKind.REJECTED))
    if isinstance(brought, Fault):
        return await in_thread(partial(insist, partial(_refused, plan, brought)))
    session, addresses = brought
    return replace(plan, session=session, ask=replace(plan.ask, attachments=addresses))


async def trace(key: UUID) -> Begun | Literal["unsent", "unknown"]:
    """What an attempt at the inquiry of this key, whose process died, has left upstream: its thread, if
    that was known; nothing, where it had not begun to ask, or was refused."""
    return await in_thread(partial(_trace, key))


def _trace(key: UUID) -> Begun | Literal["unsent", "unknown"]:
    row = DeepResearch.objects.filter(key=key).first()
    if row is None or (row.state == State.ENDED and not row.thread):
        return "unsent"
    if row.account_id is not None and thread_of(row) is not None:
        return Begun(row.pk)
    let_go(row)
    return "unknown"


def _take_place(inquiry: Inquiry) -> _Plan | NotBegun:
    row, _ = DeepResearch.objects.get_or_create(key=inquiry.key, defaults={"state": State.ENDED})
    where, earlier = (None, None) if row.anew else _earlier(inquiry)
    with transaction.atomic():
        account = take_account(
            tier_needed="pro", counted=True, uses="research", excluded=row.tried, preferred=where
        )
        if account is None:
            return _none_free(row)
        if not _occupy(row, account):
            return _TAKEN
    try:
        session = session_of(account)
    except Problem as problem:
        _give_back(row)
        return NotBegun(problem.message, is_busy=True)
    follows = earlier if where == account.pk else None
    return _Plan(row, session, _ask(inquiry, follows))


def _occupy(row: DeepResearch, account: WebAccount) -> bool:
    """Whether nobody else has the question, whose place is held or was lately."""
    now = timezone.now()
    free = DeepResearch.objects.filter(Q(state=State.ENDED) | Q(held_until__lt=now), pk=row.pk)
    row.account, row.state, row.held_until = account, State.ASKED, now + SENDING
    taken = free.update(
        account=account, state=row.state, held_until=row.held_until, thread="", answered_by=""
    )
    return bool(taken)


def _held(row: DeepResearch, *or_until: datetime) -> QuerySet[DeepResearch]:
    """The row, while its place is the one that `row` was given."""
    mine = DeepResearch.objects.filter(pk=row.pk, account_id=row.account_id)
    return mine.filter(held_until__in=[row.held_until, *or_until])


def _give_back(row: DeepResearch) -> None:
    _held(row).update(state=State.ENDED, held_until=None)


def _earlier(inquiry: Inquiry) -> tuple[int | None, Thread | None]:
    """Account and thread of the research that is followed up, where both are still there."""
    row = DeepResearch.objects.filter(pk=inquiry.follows).first() if inquiry.follows else None
    thread = thread_of(row) if row else None
    return (row.account_id, thread) if row and thread else (None, None)


def _ask(inquiry: Inquiry, follows: Thread | None) -> Ask:
    return Ask(
        inquiry.question if follows else inquiry.whole,
        RESEARCH,
        sources=inquiry.sources,
        language=inquiry.language,
        timezone=settings.UPSTREAM_TIMEZONE,
        version=settings.PPLX_API_VERSION,
        follows=follows,
        recency=inquiry.recency,
    )


def _none_free(row: DeepResearch) -> NotBegun:
    """Why `take_account` found nobody."""
    if _is_anyone_else(row.tried):
        return NotBegun("Every Perplexity session is busy.", is_busy=True, retry_after=2)
    able = pool().filter(enabled=True, tier__in=(WebAccount.Tier.PRO, WebAccount.Tier.MAX)).exclude(jar="")
    if not able.exists():
        return NotBegun("Deep research needs a Perplexity session of a Pro or Max account.")
    if not able.exclude(pk__in=row.tried).exists():
        return NotBegun("No Perplexity session could take it.", fault=Fault(FaultKind.UNAVAILABLE))
    problem = why_none(tier_needed="pro", counted=True, uses="research")
    wait = problem.headers.get("Retry-After")
    return NotBegun(
        problem.message,
        is_busy=wait is not None,
        is_used_up=isinstance(problem, RateLimited),
        retry_after=float(wait) if wait else None,
    )


def _is_anyone_else(tried: list[int]) -> bool:
    return is_anyone_busy(tier_needed="pro", counted=True, uses="research", excluded=tried)


async def _send(plan: _Plan, answer: WebAnswer) -> Fault | None:
    """Ask, and read on until the upstream has named the thread; None: it has the question."""
    opened = await open_answer(plan.session, partial(_ask_once, plan.ask))
    if isinstance(opened, Fault):
        return opened
    crashpoint("web.asked")
    reading = Reading(opened, answer)
    try:
        fault = await reading.until(lambda: bool(answer.thread.entry))
        if fault is not None:
            return fault
        until = timezone.now() + HOLD
        if not await in_thread(partial(insist, partial(_take_over, plan, answer, until))):
            raise _Superseded
        plan.row.held_until = until
        crashpoint("web.taken")
        fault = await _read_to_token(reading, answer)
        if fault is not None and fault.kind in _REFUSALS:
            return fault
        await in_thread(partial(insist, partial(_keep_thread, plan, answer, until)))
        return None
    finally:
        await reading.close()


async def _ask_once(ask: Ask, session: Session) -> Opened | Fault:
    return await web.ask(session, ask, web.new_ids())


async def _read_to_token(reading: Reading, answer: WebAnswer) -> Fault | None:
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            return await reading.until(lambda: bool(answer.thread.token))
    except TimeoutError:
        return None


@transaction.atomic
def _take_over(plan: _Plan, answer: WebAnswer, until: datetime) -> bool:
    """From now on it is known, and counted; False where it is somebody else's."""
    note_research(plan.session.account_id)
    return _keep_thread(plan, answer, until)


def _keep_thread(plan: _Plan, answer: WebAnswer, until: datetime) -> bool:
    """Its place is held `until` then. An earlier try may have written that, and its word was lost."""
    row = plan.row
    kept = _held(row, until).update(
        thread=sealed(answer.thread, row),
        answered_by=model_of(answer),
        state=State.RUNNING,
        held_until=until,
    )
    return bool(kept)


def _refused(plan: _Plan, fault: Fault) -> NotBegun:
    """What a refusal means: for the account, and for the next attempt."""
    account_id, effect, row = plan.session.account_id, EFFECTS[fault.kind], plan.row
    note_fault(account_id, fault, plan.session.jar_version, uses="research")
    anew = row.anew or bool(plan.ask.follows and effect.anew)
    is_tried = fault.kind in _KEPT_AS_IT_WAS and not plan.ask.follows
    tried = [*row.tried, account_id] if is_tried else row.tried
    _held(row).update(state=State.ENDED, held_until=None, thread="", anew=anew, tried=tried)
    told = f"{effect.message} ({fault.detail})" if fault.detail else effect.message
    if plan.ask.follows and effect.anew:
        return NotBegun("The earlier thread is gone: everything is said again.", is_busy=True)
    if _may_go_elsewhere(fault) and _is_anyone_else([*tried, account_id]):
        return NotBegun(f"One Perplexity session could not take it: {told}", is_busy=True)
    return NotBegun(told, fault=fault, retry_after=fault.retry_after)


def _may_go_elsewhere(fault: Fault) -> bool:
    """Not where the question may have arrived, nor where no account could send it."""
    is_open = fault.is_open or fault.kind in _OPEN_QUESTION
    return EFFECTS[fault.kind].elsewhere and not is_open and fault.kind is not FaultKind.UNREACHABLE
