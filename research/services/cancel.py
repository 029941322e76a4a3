"""Stopping a run: the door only flags it, or ends it when nobody has touched it yet."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from portal.models.users import User
from portal.services import audit
from portal.services.principal import Principal
from portal.services.queue import ring_after_commit
from portal.wire.crash import crashpoint
from portal.wire.errors import BadRequest, not_found
from research.models.runs import Run
from research.protocol.states import POLLED, State
from research.queries import find_run
from research.services.money import end_run
from research.services.moves import Event, FenceLost, flag


def cancel_run(who: Principal, run_id: UUID | None) -> Run:
    """Ask for the stop of the caller's own run; asking twice is asking once.

    Raises NotFound, and BadRequest when the run has already ended.
    """
    return stop_run(who, find_run(who, run_id))


def cancel_any_run(who: Principal, run_id: UUID) -> Run:
    """The same for an admin, who may stop anybody's run."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        raise not_found()
    return stop_run(who, run)


def lock_runs_of_disabled(sender: object, user: User, **signal: object) -> None:
    """Before any credits move: a worker that ends one of them has its row before it asks for the ledger's."""
    rows = Run.objects.filter(user_id=user.pk, completed_at=None).select_for_update(no_key=True)
    list(rows.order_by("pk").values_list("pk", flat=True))


def stop_runs_of_disabled(sender: object, user: User, actor: Principal | None, **signal: object) -> None:
    """Nobody is left who could read what they find."""
    for run in Run.objects.filter(user_id=user.pk, completed_at=None, cancel_requested_at=None):
        with suppress(BadRequest):  # it has ended meanwhile
            stop_run(actor, run)


def stop_run(who: Principal | None, run: Run) -> Run:
    """`who` is None for a command. Raises BadRequest when the run has already ended."""
    if run.is_terminal:
        raise BadRequest("the run is already terminal", param=None)
    if run.cancel_requested_at is None:
        with transaction.atomic():
            if not _end_untouched(run) and not _ask_worker(run):
                return _lost_to_the_end(run)
            audit.record(who, "run.cancelled", run.public_id)
            transaction.on_commit(lambda: crashpoint("cancel.committed"))
    run.refresh_from_db()
    return run


def _end_untouched(run: Run) -> bool:
    """A run that waits and that no worker holds has nothing upstream: it ends here."""
    if State(run.state) is not State.QUEUED or run.lease_token is not None:
        return False
    try:
        end_run(run, State.CANCELLED, events=[Event("stop_requested")], stop_reason="user")
    except FenceLost:
        run.refresh_from_db()
        return False
    return True


def _ask_worker(run: Run) -> bool:
    now = timezone.now()
    asked = flag(run, [Event("stop_requested")], cancel_requested_at=now, next_run_at=now)
    if asked:
        ring_after_commit("research.poll" if State(run.state) in POLLED else "research.submit")
    return asked


def _lost_to_the_end(run: Run) -> Run:
    """It ended, or somebody else asked for its stop, between our look and our write."""
    run.refresh_from_db()
    if run.is_terminal and State(run.state) is not State.CANCELLED:
        raise BadRequest("the run is already terminal")
    return run
