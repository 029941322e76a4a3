"""Deep research that the upstream has: looked at as it stands, and stopped (perplexity-web §15).

A look takes the answer up again, reads the snapshot that comes first, and lets go: no stream is held.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from portal.services import sealing
from portal.services.transactions import insist
from portal.wire.errors import Problem
from proxy.models.accounts import WebAccount
from proxy.models.research import DeepResearch
from proxy.protocol.delta import Done, Fault, FaultKind, Progress, Thread
from proxy.protocol.trail import Trail
from proxy.protocol.web_events import WebAnswer
from proxy.protocol.web_request import RESEARCH
from proxy.services.accounts import note_fault, note_success, session_of, store_cookies
from proxy.services.deep_threads import Reading, let_go, model_of, open_answer, sealed, thread_of
from proxy.services.threads import in_thread
from proxy.upstream import web
from proxy.upstream.web import Opened, Session

State = DeepResearch.State
HOLD = timedelta(minutes=3)
"""How long a place is held from one look to the next: longer than the longest wait between two."""
_NO_END = (FaultKind.CUT, FaultKind.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Seen:
    """A research as it stands. Once it is over, `fault` says how it failed, if it did."""

    answer: Done
    trail: Trail
    progress: Progress | None = None
    is_over: bool = False
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """It could not be looked at, or stopped. `is_gone`: the upstream does not know it any more."""

    fault: Fault
    is_gone: bool = False


_GONE = Unseen(Fault(FaultKind.FORBIDDEN), is_gone=True)


@dataclass(frozen=True, slots=True)
class _Held:
    """A research whose place is held, and how to reach it."""

    row: DeepResearch
    session: Session
    thread: Thread
    is_signed_out: bool


async def look(research_id: UUID, seconds: float) -> Seen | Unseen:
    """`seconds` bound the wait for the upstream, not the database's work."""
    held = await _held(research_id)
    if isinstance(held, Unseen):
        return held
    answer = WebAnswer(RESEARCH, Trail())
    try:
        async with asyncio.timeout(seconds):
            fault = await _take_up(held, answer)
            if fault is not None and fault.kind is FaultKind.FORBIDDEN and not answer.over:
                return await _judge_forbidden(held)
    except TimeoutError:
        fault = Fault(FaultKind.TIMED_OUT)
    is_over = answer.over
    if fault is not None and fault.kind in _NO_END and answer.complete:
        # All of the answer was there: only the stream's own end did not come.
        verdict, is_over = answer.verdict(), True
        fault = verdict if isinstance(verdict, Fault) else None
    return await in_thread(partial(insist, partial(_note, held, answer, fault, is_over=is_over)))


async def stop(research_id: UUID, seconds: float) -> Unseen | None:
    """Have the upstream end it; None: it does. `seconds` as above."""
    held = await _held(research_id)
    if isinstance(held, Unseen):
        return held
    try:
        async with asyncio.timeout(seconds):
            fault = await web.terminate(held.session, held.thread, held.row.answered_by or RESEARCH)
            if fault is not None and fault.kind is FaultKind.FORBIDDEN:
                return await _judge_forbidden(held)
    except TimeoutError:
        fault = Fault(FaultKind.TIMED_OUT)
    if fault is not None:
        return Unseen(fault)
    await in_thread(partial(let_go, held.row))
    return None


async def _held(research_id: UUID) -> _Held | Unseen:
    try:
        return await in_thread(partial(_hold, research_id))
    except (OperationalError, InterfaceError):
        return Unseen(Fault(FaultKind.UNREACHABLE))


def _hold(research_id: UUID) -> _Held | Unseen:
    row = DeepResearch.objects.select_related("account").filter(pk=research_id).first()
    thread = thread_of(row) if row else None
    if row is None or row.account is None or thread is None:
        return _GONE
    running = DeepResearch.objects.filter(pk=row.pk, state=State.RUNNING)
    running.update(held_until=timezone.now() + HOLD)
    try:
        session = session_of(row.account)
    except sealing.SealError:
        return Unseen(
            Fault(FaultKind.SIGNED_OUT, "The stored session cannot be opened: see manage.py doctor.")
        )
    except Problem:
        return Unseen(Fault(FaultKind.UNREACHABLE))
    return _Held(row, session, thread, row.account.health == WebAccount.Health.EXPIRED)


async def _take_up(held: _Held, answer: WebAnswer) -> Fault | None:
    """Read the snapshot, and all the rest where that says that it is complete."""
    opened = await open_answer(held.session, partial(_reconnect, held.thread))
    if isinstance(opened, Fault):
        return opened
    reading = Reading(opened, answer)
    try:
        return await reading.until(lambda: bool(answer.thread.entry) and not answer.complete)
    finally:
        await reading.close()


async def _reconnect(thread: Thread, session: Session) -> Opened | Fault:
    return await web.reconnect(session, thread, RESEARCH)


async def _judge_forbidden(held: _Held) -> Unseen:
    """A 403 means a thread that is gone, unless it is the session that is (perplexity-web §12)."""
    session = held.session
    verdict, set_cookies = await web.check(session)
    if isinstance(verdict, Fault):
        await in_thread(partial(_note_trouble, held, verdict))
        return Unseen(verdict)
    store = partial(store_cookies, session.account_id, session.jar_version, set_cookies, timezone.now())
    await in_thread(store)
    await in_thread(partial(let_go, held.row))
    return _GONE


def _note(held: _Held, answer: WebAnswer, fault: Fault | None, *, is_over: bool) -> Seen | Unseen:
    """Write down what a look has shown. What cannot be read may be readable the next time."""
    if fault is not None and (not is_over or fault.kind is FaultKind.BROKEN):
        _note_trouble(held, fault)
        return Unseen(fault)
    _keep_news(held, answer)
    if is_over and let_go(held.row):
        if fault is None:
            note_success(held.session.account_id, counted=False, opened_at=held.row.created_at)
        else:
            _note_trouble(held, fault)
    return Seen(answer.so_far(), answer.trail or Trail(), answer.progress, is_over=is_over, fault=fault)


def _note_trouble(held: _Held, fault: Fault) -> None:
    """Nobody needs to hear again of a session that is known to be signed out."""
    if not held.is_signed_out:
        note_fault(held.session.account_id, fault, held.session.jar_version, uses="research")


def _keep_news(held: _Held, answer: WebAnswer) -> None:
    """The thread's token may come late, and the model may change."""
    changes: dict[str, str] = {}
    now, before = answer.thread, held.thread
    thread = replace(before, token=now.token or before.token, context=now.context or before.context)
    if thread != before:
        changes["thread"] = sealed(thread, held.row)
    if (model := model_of(answer)) and model != held.row.answered_by:
        changes["answered_by"] = model
    if changes:
        DeepResearch.objects.filter(pk=held.row.pk).update(**changes)
