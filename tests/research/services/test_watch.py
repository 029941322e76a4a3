"""The batch poller when things take long: slow upstreams, long reports, poisonous answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from portal.models.system import Credential
from portal.services import credentials, ledger, network
from research.backends.base import SHARE_OF_LEASE, Backend, Trace
from research.models.runs import Run
from research.protocol.outcome import Fault, Finished, Order, Refused, Running, Snapshot, Stop, Submission
from research.protocol.states import State
from research.services import moves, watch
from tests.research.driving import drive, drive_to
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer


def running(count: int) -> list[Run]:
    """Runs that some upstream has, and that are due to be looked at."""
    who = somebody(credits=2 * count)
    runs = [ask(who, f"Tides {number}?") for number in range(count)]
    now = timezone.now()
    later = now + timedelta(hours=1)
    Run.objects.update(
        state=State.RUNNING, backend="agent", upstream_id="resp_u", submitted_at=now, deadline_at=later
    )
    return runs


class Upstream:
    """A backend whose every look gives, or raises, what the test says."""

    name, takes_key, carries_attached, sandbox = "agent", False, False, False

    def __init__(self, look: Callable[[int], Snapshot]) -> None:
        self.look = look
        self.asked = 0

    async def submit(self, order: Order) -> Submission:
        raise NotImplementedError

    async def trace(self, order: Order) -> Trace:
        raise NotImplementedError

    async def poll(self, upstream_id: str) -> Snapshot:
        self.asked += 1
        return self.look(self.asked)

    async def cancel(self, upstream_id: str) -> Stop:
        raise NotImplementedError


def watching(look: Callable[[int], Snapshot]) -> watch.Watch:
    def open_(name: str) -> Backend:
        return Upstream(look)

    return watch.Watch(open_)


@pytest.mark.django_db
def test_it_begins_no_look_that_might_outlast_the_lease(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four looks, one at a time; the second takes longer than the time in which a look may begin."""
    settings.RESEARCH_LEASE_SECONDS = 2
    monkeypatch.setattr(watch, "CONNECTIONS", 1)
    running(4)

    class Slow(Upstream):
        async def poll(self, upstream_id: str) -> Snapshot:
            snapshot = await super().poll(upstream_id)
            if self.asked == 2:
                await asyncio.sleep(2 * SHARE_OF_LEASE)
            return snapshot

    upstream = Slow(lambda asked: Running())
    watcher = watch.Watch(lambda name: upstream)
    assert watcher.poll() == 4
    watcher.finish()
    assert upstream.asked == 2
    assert not Run.objects.exclude(lease_token=None).exists()
    assert watch.due_to_poll(timezone.now()).count() == 2, "those that were not looked at are due at once"


@pytest.mark.django_db
def test_it_records_the_others_while_one_look_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "WAVE", 0.2)
    running(3)
    answers = asyncio.Event()

    class Slow(Upstream):
        async def poll(self, upstream_id: str) -> Snapshot:
            snapshot = await super().poll(upstream_id)
            if self.asked == 1:
                await answers.wait()
            return snapshot

    upstream = Slow(lambda asked: Running())
    watcher = watch.Watch(lambda name: upstream)
    assert watcher.poll() == 3
    held = Run.objects.exclude(lease_token=None)
    assert held.count() == 1
    Run.objects.update(next_run_at=timezone.now())
    assert watcher.poll() == 3, "two anew, and the one that is still waited for"
    assert (upstream.asked, held.count()) == (5, 1)

    async def answer() -> None:
        answers.set()

    network.call(answer())
    watcher.finish()
    assert not held.exists()


@pytest.mark.django_db
def test_it_counts_no_fault_against_a_run_that_there_was_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    running(1)
    Run.objects.update(faults=3)
    monkeypatch.setattr(watch, "SHARE_OF_LEASE", -1)
    watching(lambda asked: Running()).poll()
    run = Run.objects.get()
    assert (run.faults, run.lease_token) == (3, None)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_holds_the_lease_for_as_long_as_a_long_report_takes(settings: Settings) -> None:
    settings.RESEARCH_LEASE_SECONDS = 1
    (run,) = running(1)
    report = "- A line of the report.\n" * 15_000  # a second and a half, and more
    stolen: list[Run] = []
    done = threading.Event()

    def steal() -> None:
        while not done.wait(0.02):
            stolen.extend(moves.lease(watch.due_to_poll(timezone.now()), 1))
        connection.close()

    thief = threading.Thread(target=steal)

    def look(asked: int) -> Snapshot:
        thief.start()
        return Finished(report)

    watching(look).poll()
    done.set()
    thief.join()
    assert stolen == []
    run.refresh_from_db()
    assert run.state == State.COMPLETED


@pytest.mark.django_db
def test_it_renews_the_lease_of_those_whose_turn_has_not_come(settings: Settings) -> None:
    settings.RESEARCH_LEASE_SECONDS = 0.3
    running(1)
    leased = moves.lease(watch.due_to_poll(timezone.now()), 1)
    held = watch.Held(leased, time.monotonic())
    for _ in range(3):
        time.sleep(0.15)
        held.hold()
    assert moves.lease(watch.due_to_poll(timezone.now()), 1) == []
    assert watch.record_snapshot(leased[0], Running())


@pytest.mark.django_db
@pytest.mark.parametrize("error", [ValueError("poison"), RuntimeError("poison"), RecursionError("poison")])
def test_it_records_the_others_of_a_batch_with_a_poisonous_answer(error: Exception) -> None:
    running(5)

    def look(asked: int) -> Snapshot:
        if asked == 2:
            raise error
        return Finished("A report.")

    watching(look).poll()
    states = sorted(Run.objects.values_list("state", "faults"))
    assert states == [("completed", 0)] * 4 + [("running", 1)]


@pytest.mark.django_db
def test_it_ends_a_run_whose_every_answer_is_poison() -> None:
    (run,) = running(1)

    def look(asked: int) -> Snapshot:
        raise RuntimeError("poison")

    for _ in range(watch.PATIENCE_WITH_BROKEN):
        Run.objects.update(next_run_at=timezone.now())
        watching(look).poll()
    run.refresh_from_db()
    assert run.state == State.FAILED
    assert ledger.balance_of(run.user_id).available == 2


@pytest.mark.django_db
def test_it_ends_a_run_at_its_deadline_though_the_key_can_no_longer_be_opened(settings: Settings) -> None:
    (run,) = running(1)
    settings.SONDE_UPSTREAM = "live"
    Credential.objects.create(name=credentials.PERPLEXITY_API_KEY, sealed="lost:AAAA")
    Run.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    run = drive_to(run, State.CANCELLING)
    Run.objects.update(stop_by=timezone.now() - timedelta(seconds=1))
    run = drive(run)
    assert run.state == State.FAILED
    assert ledger.balance_of(run.user_id).available == 2


@pytest.mark.django_db
def test_it_cancels_what_the_upstream_forgot_while_its_user_stopped_it(
    sandbox: SandboxServer,
) -> None:
    (run,) = running(1)
    Run.objects.update(
        state=State.CANCELLING,
        stop_reason="user",
        cancel_requested_at=timezone.now(),
        stop_sent_at=timezone.now(),
        stop_by=timezone.now() + timedelta(minutes=1),
    )
    watching(lambda asked: Refused(Fault.GONE, "gone")).poll()
    run.refresh_from_db()
    assert run.state == State.CANCELLED
    assert ledger.balance_of(run.user_id).available == 2


@pytest.mark.django_db
def test_it_ends_a_run_at_its_deadline_without_an_upstream_to_ask(
    sandbox: SandboxServer, settings: Settings
) -> None:
    """Not one call comes through: the run ends and costs nothing."""
    (run,) = running(1)
    settings.PERPLEXITY_BASE_URL = "http://127.0.0.1:9"
    Run.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    run = drive_to(run, State.CANCELLING)
    assert run.stop_by is not None
    assert run.stop_by <= timezone.now() + timedelta(seconds=30)
    Run.objects.update(stop_by=timezone.now() - timedelta(seconds=1))
    run = drive(run)
    assert run.state == State.FAILED
    assert ledger.balance_of(run.user_id).available == Decimal(2)


@pytest.mark.django_db
def test_it_takes_two_statements_for_a_batch_of_which_there_is_nothing_to_tell(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    """One leases, one puts back, whatever the runs' ages: opening the backends is the spell's."""
    runs = running(30)
    for place, run in enumerate(runs):
        age = timedelta(seconds=10 * place)
        Run.objects.filter(pk=run.pk).update(submitted_at=timezone.now() - age)
    watcher = watching(lambda asked: Running())
    with django_assert_num_queries(2):
        assert watcher.poll() == 30
    waits = {
        round((run.next_run_at - timezone.now()).total_seconds())
        for run in Run.objects.all()
        if run.next_run_at
    }
    assert waits == {2, 3, 5, 10, 15, 30}
