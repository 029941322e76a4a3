"""Messages: what one of them does, and that they cannot pile up."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from celery.signals import before_task_publish
from django.db import connections
from django.utils import timezone

from research import tasks
from research.models.runs import Run
from research.protocol.states import State
from research.services import advance, sweep
from tests.research.people import ask, somebody
from tests.sandbox_server import SandboxServer


@contextmanager
def messages(expected: int) -> Iterator[Counter[str]]:
    """What is sent meanwhile, by name; the thread that sends is given time for `expected`, and some."""
    sent: Counter[str] = Counter()

    def note(sender: str, **signal: object) -> None:
        sent[sender] += 1

    before_task_publish.connect(note)
    yield sent
    until = time.monotonic() + 20
    while sent.total() < expected and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.1)
    before_task_publish.disconnect(note)


@pytest.mark.django_db
def test_it_rings_once_for_each_kind_of_work_however_much_is_due() -> None:
    who = somebody(credits=200)
    runs = [ask(who, f"Tides {n}?") for n in range(60)]
    stopping, running = [run.pk for run in runs[:20]], [run.pk for run in runs[20:40]]
    Run.objects.filter(pk__in=running).update(state=State.RUNNING)
    Run.objects.filter(pk__in=stopping).update(state=State.CANCELLING)
    with messages(expected=4) as sent:
        sweep.sweep()
    assert sent == {"research.submit": 1, "research.stop": 1, "research.poll": 1, "research.index": 1}


@pytest.mark.django_db
def test_it_rings_for_nothing_when_nothing_is_due() -> None:
    ask(somebody())
    Run.objects.update(next_run_at=timezone.now() + timedelta(minutes=1))
    tasks.index()
    with messages(expected=0) as sent:
        sweep.sweep()
    assert not sent


@pytest.mark.django_db
def test_it_sends_everything_that_is_due_for_one_message_longest_waiting_first(
    sandbox: SandboxServer,
) -> None:
    who = somebody(credits=20)
    runs = [ask(who, f"Tides {n}?") for n in range(5)]
    for place, run in enumerate(reversed(runs)):
        Run.objects.filter(pk=run.pk).update(next_run_at=timezone.now() - timedelta(seconds=9 - place))
    tasks.submit()
    assert not Run.objects.exclude(state=State.RUNNING).exists()
    order = list(Run.objects.order_by("submitted_at").values_list("pk", flat=True))
    assert order == [run.pk for run in reversed(runs)]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "task"), [("submit", tasks.submit), ("stop", tasks.stop), ("poll", tasks.poll)]
)
def test_it_drops_a_message_when_its_lanes_are_taken(
    sandbox: SandboxServer, kind: str, task: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = somebody()
    ask(who)
    state = {"submit": State.QUEUED, "stop": State.CANCELLING, "poll": State.RUNNING}[kind]
    Run.objects.update(state=state, backend="agent", upstream_id="resp_u", stop_by=timezone.now())
    monkeypatch.setitem(tasks._lanes, kind, threading.BoundedSemaphore(1))
    with tasks._lane(kind):
        task()  # type: ignore[operator]  # a task
    assert Run.objects.get().attempt == 0
    task()  # type: ignore[operator]
    assert Run.objects.get().attempt > 0


def test_it_leaves_a_thread_for_the_sweep() -> None:
    from portal.embedded import WORKER_THREADS as embedded  # noqa: PLC0415
    from portal.running.roles import WORKER_THREADS as cluster  # noqa: PLC0415

    assert sum(tasks.LANES.values()) < min(embedded, cluster)


@pytest.mark.django_db(transaction=True)
def test_it_sweeps_while_a_slow_upstream_takes_its_time(sandbox: SandboxServer) -> None:
    """Many more runs than lanes, each of whose submissions takes half a second."""
    who = somebody(credits=20)
    for number in range(8):
        ask(who, f"Tides {number}? [sandbox:slow=0.5]")

    def work() -> None:
        tasks.submit()
        connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    busy = sum(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()
    assert busy == tasks.LANES["submit"]
    assert not advance.due_to_submit(timezone.now()).exists()


@pytest.mark.django_db
def test_it_waits_for_what_is_due_soon_instead_of_leaving_it_to_the_sweep(sandbox: SandboxServer) -> None:
    ask(somebody())
    due, later = timezone.now() + timedelta(seconds=0.4), timezone.now() + timedelta(hours=1)
    Run.objects.update(state=State.RUNNING, backend="agent", upstream_id="resp_u", next_run_at=due)
    Run.objects.update(deadline_at=later, time_budget=3600)
    tasks.poll()
    run = Run.objects.get()
    assert run.attempt == 1
    assert run.next_run_at is None or run.next_run_at >= due


@pytest.mark.django_db
def test_it_rings_for_the_next_spell_where_one_ends_before_the_work_does(
    sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SPELL", 0.0)
    who = somebody()
    for number in range(2):
        ask(who, f"Tides {number}?")
    with messages(expected=1) as sent:
        tasks.submit()
    assert sent["research.submit"] == 1
    assert Run.objects.filter(state=State.QUEUED).count() == 1
