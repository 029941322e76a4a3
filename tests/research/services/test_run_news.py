from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

import pytest
from django.db import OperationalError

from portal.api.threads import run_in_database
from research.models.runs import Run
from research.services import run_news
from research.services.run_news import RunNews
from tests.research.api.callers import Caller, caller, run_of

pytestmark = pytest.mark.django_db(transaction=True)
Result = TypeVar("Result")


@pytest.fixture
def who() -> Caller:
    return caller(credits=100)


class Looks:
    """The real look at the database, counted, and failing as often as it is told to."""

    def __init__(self, failing: int = 0) -> None:
        self.count = 0
        self.failing = failing
        self.were_several = asyncio.Event()

    async def __call__(self, work: Callable[[], Result]) -> Result:
        self.count += 1
        if self.count == 3:
            self.were_several.set()
        if self.count <= self.failing:
            raise OperationalError("the server closed the connection")
        return await run_in_database(work)


async def wait(news: RunNews, *waits: tuple[object, int]) -> None:
    async with asyncio.timeout(20):
        await asyncio.gather(*(news.after(run, seq) for run, seq in waits))  # type: ignore[arg-type]  # ids


def test_it_wakes_whoever_waits_for_an_event_that_is_there(who: Caller) -> None:
    run = run_of(who.start())
    asyncio.run(wait(RunNews(Looks(), pause=0), (run.pk, 0), (run.pk, 0)))


def test_it_wakes_who_waits_for_a_run_that_is_no_more() -> None:
    asyncio.run(wait(RunNews(Looks(), pause=0), (uuid4(), 5)))


def test_it_looks_once_for_all_who_wait(who: Caller) -> None:
    runs = [run_of(who.start(f"Question {number}?")) for number in range(5)]
    looks = Looks()
    asyncio.run(wait(RunNews(looks, pause=0), *((run.pk, 0) for run in runs for _ in range(20))))
    assert looks.count == 1


def test_it_asks_for_no_more_runs_at_once_than_a_statement_takes(
    who: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_news, "AT_ONCE", 2)
    runs = [run_of(who.start(f"Question {number}?")) for number in range(5)]
    looks = Looks()
    asyncio.run(wait(RunNews(looks, pause=0), *((run.pk, 0) for run in runs)))
    assert looks.count == 3


def test_it_goes_on_looking_when_the_database_was_away(who: Caller) -> None:
    run, looks = run_of(who.start()), Looks(failing=3)
    asyncio.run(wait(RunNews(looks, pause=0), (run.pk, 0)))
    assert looks.count == 4


def test_it_lets_sleep_who_waits_for_more_and_forgets_who_left(who: Caller) -> None:
    run, looks = run_of(who.start()), Looks()

    async def scene() -> None:
        news = RunNews(looks, pause=0)
        patient = asyncio.create_task(news.after(run.pk, run.event_seq))
        await looks.were_several.wait()
        assert not patient.done()
        patient.cancel()
        await asyncio.wait({patient})
        await wait(news, (run.pk, 0))

    asyncio.run(scene())


def test_it_waits_with_a_read_for_a_database_that_is_away(who: Caller) -> None:
    run, looks = run_of(who.start()), Looks(failing=5)
    news = RunNews(looks, pause=0)
    assert asyncio.run(news.read(lambda: Run.objects.get(pk=run.pk))) == run
    assert looks.count == 6


def test_it_says_so_when_the_database_stays_away() -> None:
    looks = Looks(failing=10_000)
    with pytest.raises(OperationalError):
        asyncio.run(RunNews(looks, pause=0).read(Run.objects.count))
    assert looks.count == run_news.PATIENCE + 1
