"""Threads of deep research whose report nobody keeps any more: deleted upstream, too (SPEC 10.11)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.db.models import F, Q
from django.utils import timezone

from portal.services import network, sealing
from portal.services.queue import ring_after_commit
from portal.wire.errors import Problem
from proxy.models.research import DeepResearch
from proxy.protocol.delta import Fault, FaultKind, Thread
from proxy.services.accounts import CARE, session_of
from proxy.services.deep_attachments import forget_attached
from proxy.services.deep_threads import thread_of
from proxy.upstream import web
from proxy.upstream.web import Session

Call = tuple[Session, Thread]

AT_ONCE = 8
LEASE = timedelta(minutes=3)
TRIES = 8
FIRST_WAIT = timedelta(minutes=5)
"""Until a deletion that failed is tried again; each failure doubles it."""
_DONE = frozenset({FaultKind.FORBIDDEN, FaultKind.REJECTED})
"""The upstream has no such thread, or none that it would delete."""


def forget(keys: Collection[UUID]) -> None:
    """Have the researches of these keys deleted, with what was attached to them. It holds once the
    caller's transaction does."""
    forget_attached(keys)
    waiting = DeepResearch.objects.filter(key__in=keys, forget_at=None)
    if waiting.update(forget_at=timezone.now()):
        ring_after_commit(CARE)


def forget_due() -> int:
    """Delete upstream what is due, some at a time; how many went."""
    rows = _claim()
    asked = [(row, call) for row in rows if (call := _call(row))]
    faults = network.call(_delete_all([call for _, call in asked])) if asked else []
    kept = {
        row.pk for (row, _), fault in zip(asked, faults, strict=True) if fault and not _is_over(row, fault)
    }
    for row in rows:
        if row.pk in kept:
            wait = FIRST_WAIT * 2**row.forget_tries
            again = DeepResearch.objects.filter(pk=row.pk)
            again.update(forget_at=timezone.now() + wait, forget_tries=F("forget_tries") + 1)
    gone = [row.pk for row in rows if row.pk not in kept]
    DeepResearch.objects.filter(pk__in=gone).delete()
    return len(gone)


def _claim() -> list[DeepResearch]:
    """Those whose deletion this process now has the work of; it is due again when the process dies.

    What still runs is stopped first, by others.
    """
    now = timezone.now()
    is_over = Q(held_until=None) | Q(held_until__lte=now)
    due = DeepResearch.objects.select_related("account").filter(is_over, forget_at__lte=now)
    due = due.order_by("forget_at")
    return [
        row
        for row in due[:AT_ONCE]
        if DeepResearch.objects.filter(pk=row.pk, forget_at=row.forget_at).update(forget_at=now + LEASE)
    ]


def _call(row: DeepResearch) -> Call | Fault | None:
    """None for a thread that nobody can delete: never known, or of an account that is gone. A fault where
    the upstream is not there yet."""
    thread = thread_of(row)
    if thread is None or row.account is None or not row.account.jar:
        return None
    try:
        return session_of(row.account), thread
    except sealing.SealError:
        return None
    except Problem:
        return Fault(FaultKind.UNREACHABLE)


async def _delete_all(calls: list[Call | Fault]) -> list[Fault | None]:
    return list(await asyncio.gather(*(_delete(call) for call in calls)))


async def _delete(call: Call | Fault) -> Fault | None:
    return call if isinstance(call, Fault) else await web.delete(*call)


def _is_over(row: DeepResearch, fault: Fault) -> bool:
    return fault.kind in _DONE or row.forget_tries + 1 >= TRIES
