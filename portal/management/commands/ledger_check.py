from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import transaction

from portal.management.base import SpokenCommand
from portal.services.ledger_check import Drift, check, open_reservations, totals
from portal.wire.amounts import plain
from research.models.runs import Run, ledger_subject

PREFIX = ledger_subject(UUID(int=0)).partition(":")[0] + ":"


class Command(SpokenCommand):
    help = "Prove that every balance is the sum of its entries. Exits with 1 when one is not."

    def handle(self, *args: Any, **options: Any) -> None:
        drifts = [*check(), *_runs()]
        for drift in drifts:
            self.stdout.write(str(drift))
        if drifts:
            raise CommandError(f"the ledger is wrong in {len(drifts)} places")
        books = totals()
        self.stdout.write(
            f"the ledger is right: {books.entries} entries in {books.accounts} accounts,"
            f" granted {plain(books.granted)} = charged {plain(books.charged)}"
            f" + reserved {plain(books.reserved)} + left {plain(books.left)}"
        )


def _runs() -> Iterator[Drift]:
    """I4: a run that costs something lives exactly as long as its reservation is open."""
    held = {entry.subject for entry in open_reservations().filter(subject__startswith=PREFIX).iterator()}
    live = {run.subject for run in Run.objects.filter(completed_at=None, price__gt=0).only("id").iterator()}
    # Read one after the other: what differs may have moved in between, and is looked at again.
    for subject in sorted(held ^ live):
        yield from _look_again(subject)


@transaction.atomic
def _look_again(subject: str) -> list[Drift]:
    """Under the run's lock, which every move of its money is made under."""
    run_id = _run_id(subject)
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first() if run_id else None
    is_held = open_reservations().filter(subject=subject).exists()
    is_live = run is not None and not run.is_terminal
    if is_held and not is_live:
        return [Drift(subject, "has ended, but its credits are still reserved")]
    if is_live and not is_held:
        return [Drift(subject, "is at work without a reservation")]
    return []


def _run_id(subject: str) -> UUID | None:
    try:
        return UUID(subject.removeprefix(PREFIX))
    except ValueError:
        return None
