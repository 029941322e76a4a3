"""The money of a run: its last state and its last ledger entry are one transaction, and so are a
refund and what the run says of it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import F, Value

from portal.models.fields import CreditField
from portal.services import ledger
from portal.wire.crash import crashpoint
from research.models.reports import Report
from research.models.runs import Run, run_of_subject
from research.protocol.states import State
from research.services import moves
from research.services.moves import Event

NOTHING = Decimal(0)
DELIVERED = frozenset({State.COMPLETED, State.INCOMPLETE})


def end_run(
    run: Run,
    state: State,
    *,
    report: Report | None = None,
    error_code: str = "",
    error_message: str = "",
    events: Sequence[Event] = (),
    charge: bool = False,
    **changes: Any,
) -> None:
    """Delivered work costs its price, everything else nothing; `charge` makes an exception.

    Raises FenceLost, and writes nothing at all, when another process ended the run first.
    """
    settled = run.price if state in DELIVERED or charge else NOTHING
    last = Event(state.value, {"message": error_message} if error_message else {})
    with transaction.atomic():
        moves.end(
            run,
            state,
            [*events, last],
            error_code=error_code,
            error_message=error_message[:1000],
            credits_charged=run.price,
            credits_refunded=run.price - settled,
            **changes,
        )
        if report is not None:
            report.save(force_insert=True)
        ledger.close(run.subject, settled)
        crashpoint("finish.inside")
    crashpoint("finish.committed")


def note_refund(sender: object, subject: str, amount: Decimal, **signal: object) -> None:
    """What an operator gave back later counts as refunded wherever the run is shown."""
    run_id = run_of_subject(subject)
    if run_id is not None:
        Run.objects.filter(pk=run_id).update(
            credits_refunded=F("credits_refunded") + Value(amount, output_field=CreditField())
        )
