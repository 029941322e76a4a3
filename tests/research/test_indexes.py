"""Every read that is made often, or of a table that grows for ever, begins at an index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from portal.models.ledger import LedgerEntry
from portal.models.teams import Team
from portal.services.ledger_check import open_reservations
from portal.services.principal import Principal
from research.models.reports import RunEvent
from research.models.runs import Run
from research.protocol.states import State
from research.queries import readable_runs, shared_runs, standing, visible_runs
from research.services import advance, library_index, watch

ME = Principal(1, frozenset())
TEAM = Team(pk=1)
NOW = timezone.now()
READS: dict[str, tuple[Callable[[], QuerySet[Any]], str]] = {
    "submit": (lambda: advance.due_to_submit(NOW).order_by("next_run_at")[:1], "run_due"),
    "stop": (lambda: advance.due_to_stop(NOW).order_by("next_run_at")[:1], "run_due"),
    "poll": (lambda: watch.due_to_poll(NOW).order_by("next_run_at")[:250], "run_due"),
    "my runs": (lambda: visible_runs(ME).order_by("-created_at", "-id")[:21], "run_by_user"),
    "my runs, further on": (
        lambda: (
            visible_runs(ME)
            .filter(created_at__lte=NOW)
            .exclude(created_at=NOW, pk__gte=uuid4())
            .order_by("-created_at", "-id")[:21]
        ),
        "run_by_user (user_id=? AND created_at<?)",
    ),
    "my failed runs": (
        lambda: standing(visible_runs(ME), ["failed"]).order_by("-created_at", "-id")[:21],
        "run_ended_by_user",
    ),
    "a team's runs": (
        lambda: shared_runs(TEAM).select_related("user").order_by("-shared_at", "-id")[:21],
        "run_by_team (shared_with_id=?)",
    ),
    "a team's runs, further on": (
        lambda: (
            shared_runs(TEAM)
            .filter(shared_at__lte=NOW)
            .exclude(shared_at=NOW, pk__gte=uuid4())
            .order_by("-shared_at", "-id")[:21]
        ),
        "run_by_team (shared_with_id=? AND shared_at<?)",
    ),
    "a run to read": (
        lambda: readable_runs(ME).filter(pk=uuid4()).order_by(),
        "sqlite_autoindex_research_run_1 (id=?)",
    ),
    "everybody's runs": (lambda: Run.objects.select_related("user")[:101], "run_by_time"),
    "usual time": (
        lambda: Run.objects.filter(preset="30m", state=State.COMPLETED).order_by("-completed_at")[:50],
        "run_times",
    ),
    "in flight": (lambda: Run.objects.filter(completed_at=None, user_id=1).order_by(), "run_live_by_user"),
    "in flight by key": (
        lambda: Run.objects.filter(completed_at=None, key_id=1).order_by(),
        "run_live_by_key",
    ),
    "same request": (
        lambda: Run.objects.filter(user_id=1, fingerprint="f", created_at__gte=NOW).order_by("-created_at")[
            :1
        ],
        "run_by_fingerprint",
    ),
    "same key": (
        lambda: Run.objects.filter(user_id=1, idempotency_key="k").order_by(),
        "run_once_per_idempotency_key",
    ),
    "words to take": (lambda: library_index.due().order_by("-id")[:20], "library_to_index"),
    "retention": (
        lambda: Run.objects.filter(completed_at__lt=NOW - timedelta(days=7), hidden_at=None).order_by(
            "completed_at"
        )[:200],
        "run_by_age",
    ),
    "events": (
        lambda: RunEvent.objects.filter(run=uuid4(), seq__gt=3).order_by("seq"),
        "(run_id=? AND seq>?)",
    ),
    "ledger": (lambda: LedgerEntry.objects.filter(account=1).order_by("-id")[:51], "ledger_by_account"),
    "a subject": (
        lambda: LedgerEntry.objects.filter(subject="run:a", kind="close").order_by(),
        "ledger_by_subject",
    ),
    "open reservations": (
        lambda: open_reservations().filter(subject="run:a").order_by(),
        "ledger_by_subject",
    ),
}


@pytest.mark.embedded
@pytest.mark.django_db
@pytest.mark.parametrize("read", READS)
def test_it_reads_by_an_index_and_sorts_nothing(read: str) -> None:
    rows, index = READS[read]
    plan = rows().explain()
    assert index in plan, plan
    assert "TEMP B-TREE" not in plan, plan
    assert "SCAN portal" not in plan, plan
