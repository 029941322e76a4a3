"""Runs that stop because their user was disabled."""

from __future__ import annotations

import pytest

from portal.models.audit import AuditEntry
from portal.models.users import User
from portal.services import ledger
from portal.services.users import set_active
from research.models.runs import Run
from research.protocol.states import State
from tests.portal.people import an_admin
from tests.research.driving import drive, drive_to
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer

pytestmark = pytest.mark.django_db


def test_it_stops_what_runs_for_a_disabled_user_and_gives_the_credits_back(sandbox: SandboxServer) -> None:
    who, boss = somebody(credits=10), an_admin()
    running = drive_to(ask(who, "Tides? [sandbox:stuck]"), State.RUNNING)
    waiting = ask(who, "Tides, later?")
    set_active(User.objects.get(pk=who.user_id), False, actor=boss)
    assert drive(running).state == State.CANCELLED
    waiting.refresh_from_db()
    assert waiting.state == State.CANCELLED
    assert ledger.balance_of(who.user_id).available == 10
    said = AuditEntry.objects.filter(action="run.cancelled", actor_id=boss.user_id)
    assert {entry.target for entry in said} == {running.public_id, waiting.public_id}


def test_it_leaves_alone_what_others_run_and_what_has_ended(sandbox: SandboxServer) -> None:
    who, other = somebody(credits=10), somebody(credits=10)
    done, foreign = drive(ask(who, "Tides?")), ask(other, "Tides?")
    set_active(User.objects.get(pk=who.user_id), False, actor=None)
    states = dict(Run.objects.values_list("pk", "state"))
    assert states == {done.pk: State.COMPLETED, foreign.pk: State.QUEUED}
