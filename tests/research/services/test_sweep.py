"""What the sweeper clears away, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import Settings

from portal.models.system import RateWindow
from portal.services import ledger
from research.models.runs import Run
from research.services import sweep
from research.services.cancel import cancel_run
from tests.portal.people import the_clock_at
from tests.research.people import ask, somebody

pytestmark = pytest.mark.django_db


def an_expired_session() -> None:
    Session.objects.create(session_key="a" * 32, expire_date=timezone.now() - timedelta(seconds=1))


def test_it_clears_away_sessions_and_counts_that_are_past_and_no_others() -> None:
    an_expired_session()
    now = timezone.now()
    Session.objects.create(session_key="b" * 32, expire_date=now + timedelta(days=1))
    for days in (1, 3):
        RateWindow.objects.create(subject="user:1", starts_at=now - timedelta(days=days), count=1)
    sweep.tidy()
    assert [session.session_key for session in Session.objects.all()] == ["b" * 32]
    assert [window.starts_at for window in RateWindow.objects.all()] == [now - timedelta(days=1)]


def test_it_hides_what_is_older_than_its_retention_and_keeps_row_key_and_money(settings: Settings) -> None:
    settings.RETENTION_DAYS = 7
    who = somebody(credits=10)
    old, fresh, live = (ask(who, idempotency_key=name) for name in ("old", "fresh", "live"))
    for run, days in ((old, 8), (fresh, 6)):
        cancel_run(who, run.pk)
        Run.objects.filter(pk=run.pk).update(completed_at=timezone.now() - timedelta(days=days))
    assert sweep.tidy() == 1
    old.refresh_from_db()
    assert (old.question, old.idempotency_key, old.hidden_at is None) == ("", "old", False)
    assert not old.events.exists()
    assert set(Run.objects.filter(hidden_at=None)) == {fresh, live}
    assert ledger.balance_of(who.user_id).available == 10 - live.price


def test_it_keeps_everything_without_a_retention() -> None:
    who = somebody(credits=10)
    run = ask(who)
    cancel_run(who, run.pk)
    Run.objects.filter(pk=run.pk).update(completed_at=timezone.now() - timedelta(days=4000))
    assert sweep.tidy() == 0
    assert Run.objects.filter(hidden_at=None).exists()


def test_it_tidies_once_an_hour_however_often_it_is_asked() -> None:
    """A start asks soon after it: what counts is the row, so one that restarts all the time tidies."""
    begin, tidied = timezone.now(), []
    for minutes in range(0, 150, 10):
        an_expired_session()
        with the_clock_at(begin + timedelta(minutes=minutes)):
            sweep.tidy_due()
        if not Session.objects.exists():
            tidied.append(minutes)
        Session.objects.all().delete()
    assert tidied == [60, 120]
