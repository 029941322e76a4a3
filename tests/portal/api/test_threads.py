from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import InterfaceError, connection, connections

from portal.api.threads import DatabaseThreads
from portal.wire.errors import Unavailable


async def test_it_works_off_the_event_loop() -> None:
    assert await DatabaseThreads(1).run(threading.get_ident) != threading.get_ident()


async def test_it_raises_what_the_work_raised() -> None:
    def work() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await DatabaseThreads(1).run(work)


async def test_it_runs_as_many_at_once_as_it_has_threads_and_no_more() -> None:
    threads, now, most = DatabaseThreads(3), 0, 0
    lock, together = threading.Lock(), threading.Barrier(3, timeout=20)

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait()
        with lock:
            now -= 1

    await asyncio.gather(*(threads.run(work) for _ in range(12)))
    assert most == 3


async def test_it_refuses_work_when_too_much_waits_and_takes_it_again_after() -> None:
    threads, go = DatabaseThreads(1, most_waiting=1), threading.Event()
    running = [asyncio.ensure_future(threads.run(go.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await threads.run(go.wait)
    go.set()
    await asyncio.gather(*running)
    assert await threads.run(lambda: 7) == 7


@pytest.mark.django_db(transaction=True)
async def test_it_gives_the_connection_back_after_each_visit() -> None:
    def ask() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return connection.connection is not None

    def is_open() -> bool:
        return any(one.connection is not None for one in connections.all(initialized_only=True))

    threads = DatabaseThreads(1)
    assert await threads.run(ask)
    assert not await threads.run(is_open)


async def test_it_keeps_an_answer_whose_connection_breaks_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off() -> None:
        raise InterfaceError("the connection is lost")

    monkeypatch.setattr(connections, "close_all", break_off)
    assert await DatabaseThreads(1).run(lambda: "committed") == "committed"
