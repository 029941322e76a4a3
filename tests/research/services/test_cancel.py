"""Runs that stop because their user was disabled."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.models import Model

from portal.models.audit import AuditEntry
from portal.models.users import User
from portal.services import ledger
from portal.services.ledger_check import check
from portal.services.users import set_active
from proxy.models.chats import ChatTurn
from proxy.services.settling import end_turn
from research.models.runs import Run
from research.protocol.states import State
from research.services.money import end_run
from tests.portal.people import an_admin
from tests.proxy.accounts import account
from tests.proxy.chatting import chatter
from tests.proxy.responding import in_background
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


def wait_until_somebody_waits() -> None:
    """For a lock that is held here."""
    with connection.cursor() as cursor:
        for _ in range(1000):
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits")


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", range(3))
def test_it_waits_for_a_worker_that_is_just_ending_one_of_them(sandbox: SandboxServer, held: int) -> None:
    """Two runs and a response; the worker has the row of one, and asks for the ledger's next."""
    account()
    who = chatter()
    runs = [ask(who.principal, f"Tides? {number}") for number in range(2)]
    turn = ChatTurn.objects.get(pk=in_background(who).pk)
    ends: list[tuple[type[Model], UUID, Callable[[], object]]] = [
        *((Run, run.pk, partial(end_run, run, State.CANCELLED)) for run in runs),
        (ChatTurn, turn.pk, partial(end_turn, turn, ChatTurn.State.CANCELLED)),
    ]
    model, key, end = ends[held]
    has_row = Event()

    def work() -> None:
        try:
            with transaction.atomic():
                model._default_manager.select_for_update().get(pk=key)
                has_row.set()
                wait_until_somebody_waits()
                end()
        finally:
            has_row.set()
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(work)
        has_row.wait()
        set_active(who.user, False, actor=None)
        worker.result()

    assert set(Run.objects.values_list("state", flat=True)) == {State.CANCELLED}
    assert ChatTurn.objects.get().state == ChatTurn.State.CANCELLED
    assert (who.spent, check()) == ("0 0", [])
