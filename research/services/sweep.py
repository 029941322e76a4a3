"""Finds what was lost: rings for whatever is due, and clears away what is past.

Runs every second in each beat; two beats do no harm, since a ring only says "look".
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from portal.models.system import Heartbeat, RateWindow
from portal.services.queue import ring
from proxy.services import duties
from research.models.reports import Report, RunEvent
from research.models.runs import Run
from research.services import advance, library_index, watch
from research.services.threads import forget_threads

BATCH = 200
TIDY, TIDY_EVERY, TIDY_LEASE = "tidy", timedelta(hours=1), timedelta(minutes=30)
WORK = {
    "research.submit": advance.due_to_submit,
    "research.stop": advance.due_to_stop,
    "research.poll": watch.due_to_poll,
}


def sweep() -> None:
    """Ring once for each kind of work that is due: who hears it works off all of that kind."""
    now = timezone.now()
    if not Heartbeat.objects.filter(name="sweeper").update(at=now):
        Heartbeat.objects.get_or_create(name="sweeper", defaults={"at": now})
    for task, due in WORK.items():
        if due(now).exists():
            ring(task)
    if library_index.due().order_by().exists():
        ring(library_index.INDEX)


def tidy_due() -> None:
    """Tidy once an hour, by a row: however often the portal starts, and however many beats ask."""
    until = duties.claim(TIDY, TIDY_EVERY, TIDY_LEASE)
    if until is not None:
        tidy()
        duties.finish(TIDY, until, TIDY_EVERY)


def tidy() -> int:
    """Clear away what is past: counts of requests, sessions that expired, and by RETENTION_DAYS old runs,
    which are hidden and lose their reports, in batches.

    The row, its idempotency key and its ledger entries stay. Returns how many were hidden.
    """
    now = timezone.now()
    RateWindow.objects.filter(starts_at__lt=now - timedelta(days=2)).delete()
    Session.objects.filter(expire_date__lt=now).delete()
    if not settings.RETENTION_DAYS:
        return 0
    before, total = now - timedelta(days=settings.RETENTION_DAYS), 0
    while hidden := _hide_batch(before):
        total += hidden
    return total


def _hide_batch(before: object) -> int:
    old = Run.objects.filter(completed_at__lt=before, hidden_at=None).order_by("completed_at")
    with transaction.atomic():
        batch = list(old.values_list("pk", flat=True)[:BATCH])
        Report.objects.filter(run__in=batch).delete()
        RunEvent.objects.filter(run__in=batch).delete()
        forget_threads(batch)
        Run.objects.filter(pk__in=batch).update(
            hidden_at=timezone.now(), question="", title="", options={}, metadata={}, progress={}
        )
    return len(batch)
