"""Upstreams that go on, or were done, when they are told to stop (perplexity-api §5.6)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from research.models.runs import Run
from research.protocol.outcome import Fault, Refused, Running
from research.protocol.states import State
from research.services import moves, stopping
from tests.research.services.test_watch import running, watching

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def over_budget(stop_by: datetime, sent_at: datetime | None) -> Run:
    """A run that is being stopped since its time is up."""
    (run,) = running(1)
    ending = {"stop_reason": "budget", "stop_by": stop_by, "stop_sent_at": sent_at}
    Run.objects.update(state=State.CANCELLING, deadline_at=timezone.now(), **ending)
    return run


def test_it_waits_for_the_last_words_of_an_upstream_that_goes_on_for_a_while() -> None:
    now = timezone.now()
    run = over_budget(now + 20 * SECOND, now)
    watching(lambda asked: Running(text="Half a report.")).poll()
    run.refresh_from_db()
    assert (run.state, run.stop_by) == (State.CANCELLING, now + 20 * SECOND)


def test_it_ends_with_what_there_is_when_the_upstream_will_not_stop() -> None:
    now = timezone.now()
    run = over_budget(now - SECOND, now - 30 * SECOND)
    watching(lambda asked: Running(text="Half a report.")).poll()
    run.refresh_from_db()
    assert (run.state, run.notes) == (State.INCOMPLETE, [stopping.UNCONFIRMED])


def test_it_looks_once_more_at_a_run_that_was_over_before_it_was_told_to_stop() -> None:
    now = timezone.now()
    run = over_budget(now + 20 * SECOND, None)
    (leased,) = moves.lease(moves.due(timezone.now()), 1)
    stopping.record_answer(leased, Refused(Fault.TERMINAL, "It is over."), now)
    run.refresh_from_db()
    assert (run.state, run.stop_sent_at, run.faults) == (State.CANCELLING, now, 0)
