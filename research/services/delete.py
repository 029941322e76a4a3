"""Deleting a run: it is stopped, and gone for every door; its row and its ledger stay (SPEC 10.11)."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from portal.services import audit
from portal.services.principal import Principal
from portal.wire.errors import BadRequest
from research.models.runs import Run
from research.queries import find_run
from research.services.cancel import stop_run
from research.services.threads import forget_threads


def delete_run(who: Principal, run_id: UUID | None) -> None:
    """Hide the caller's own run, and stop it when it still goes on. Raises NotFound."""
    run = find_run(who, run_id)
    with transaction.atomic():
        hidden = Run.objects.filter(pk=run.pk, hidden_at=None).update(hidden_at=timezone.now())
        if hidden:
            forget_threads([run.pk])
            audit.record(who, "run.deleted", run.public_id)
    if not run.is_terminal:
        _stop(who, run)


def _stop(who: Principal, run: Run) -> None:
    try:
        stop_run(who, run)
    except BadRequest:
        return  # it ended meanwhile
