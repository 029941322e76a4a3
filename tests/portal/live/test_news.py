from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from portal.live import news
from portal.live.news import News

Result = TypeVar("Result")
WRITTEN = {uuid4(): 3 for _ in range(5)}
ONE = next(iter(WRITTEN))


def written(subjects: Collection[UUID]) -> dict[UUID, int]:
    return {subject: WRITTEN[subject] for subject in subjects if subject in WRITTEN}


class Looks:
    """Visits to a database, counted, and failing as often as they are told to."""

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
        return await asyncio.to_thread(work)


def news_by(looks: Looks) -> News:
    return News(written, looks, pause=0)


async def wait(told: News, *waits: tuple[UUID, int]) -> None:
    async with asyncio.timeout(20):
        await asyncio.gather(*(told.after(subject, place) for subject, place in waits))


async def test_it_wakes_whoever_waits_for_what_is_written() -> None:
    await wait(news_by(Looks()), (ONE, 0), (ONE, 2))


async def test_it_wakes_who_waits_for_what_is_no_more() -> None:
    await wait(news_by(Looks()), (uuid4(), 5))


async def test_it_looks_once_for_all_who_wait() -> None:
    looks = Looks()
    await wait(news_by(looks), *((subject, 0) for subject in WRITTEN for _ in range(20)))
    assert looks.count == 1


async def test_it_asks_for_no_more_at_once_than_a_statement_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "AT_ONCE", 2)
    looks = Looks()
    await wait(news_by(looks), *((subject, 0) for subject in WRITTEN))
    assert looks.count == 3


async def test_it_goes_on_looking_when_the_database_was_away() -> None:
    looks = Looks(failing=3)
    await wait(news_by(looks), (ONE, 0))
    assert looks.count == 4


async def test_it_lets_sleep_who_waits_for_more_and_forgets_who_left() -> None:
    looks = Looks()
    told = news_by(looks)
    patient = asyncio.create_task(told.after(ONE, WRITTEN[ONE]))
    await looks.were_several.wait()
    assert not patient.done()
    patient.cancel()
    await asyncio.wait({patient})
    await wait(told, (ONE, 0))


async def test_it_waits_with_a_read_for_a_database_that_is_away() -> None:
    looks = Looks(failing=5)
    assert await news_by(looks).read(lambda: "read") == "read"
    assert looks.count == 6


async def test_it_says_so_when_the_database_stays_away() -> None:
    looks = Looks(failing=10_000)
    with pytest.raises(OperationalError):
        await news_by(looks).read(lambda: "read")
    assert looks.count == news.PATIENCE + 1
