from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from django.db import connections

from portal.services.groups import MOST, Groups


async def test_it_does_what_gathers_meanwhile_in_one_round() -> None:
    rounds: list[list[int]] = []
    begun, gate = threading.Event(), threading.Event()

    def double(works: Sequence[int]) -> list[int]:
        rounds.append(list(works))
        begun.set()
        gate.wait(10)
        return [2 * work for work in works]

    groups = Groups(double, "test")
    waiting = [asyncio.ensure_future(groups.submit(number)) for number in range(6)]
    await asyncio.to_thread(begun.wait, 10)
    gate.set()

    assert await asyncio.gather(*waiting) == [0, 2, 4, 6, 8, 10]
    assert [work for works in rounds for work in works] == [0, 1, 2, 3, 4, 5]
    assert len(rounds) <= 2


async def test_it_raises_where_the_work_came_from() -> None:
    groups: Groups[int, int] = Groups(lambda works: [ValueError(f"no {work}") for work in works], "test")

    with pytest.raises(ValueError, match="no 7"):
        await groups.submit(7)


async def test_it_leaves_nobody_waiting_when_a_round_breaks() -> None:
    def breaks(works: Sequence[int]) -> list[int]:
        raise RuntimeError("broken")

    groups = Groups(breaks, "test")
    ended = await asyncio.gather(groups.submit(1), groups.submit(2), return_exceptions=True)

    assert [str(error) for error in ended] == ["broken", "broken"]


async def test_it_goes_on_after_a_broken_round() -> None:
    def breaks_once(works: Sequence[int]) -> list[int]:
        if 1 in works:
            raise RuntimeError("broken")
        return list(works)

    groups = Groups(breaks_once, "test")
    with pytest.raises(RuntimeError):
        await groups.submit(1)

    assert await groups.submit(2) == 2


async def test_it_takes_no_more_than_a_round_holds() -> None:
    sizes: list[int] = []

    def count(works: Sequence[int]) -> list[int]:
        sizes.append(len(works))
        return list(works)

    groups = Groups(count, "test")
    await asyncio.gather(*(groups.submit(number) for number in range(3 * MOST)))

    assert max(sizes) <= MOST
    assert sum(sizes) == 3 * MOST


async def test_it_does_the_work_of_a_caller_who_left() -> None:
    done: list[int] = []
    gate = threading.Event()

    def note(works: Sequence[int]) -> list[int]:
        gate.wait(10)
        done.extend(works)
        return list(works)

    groups = Groups(note, "test")
    leaving = asyncio.ensure_future(groups.submit(1))
    await asyncio.sleep(0)
    leaving.cancel()
    gate.set()

    assert await groups.submit(2) == 2
    assert done == [1, 2]


async def test_it_keeps_its_connection_for_what_comes_soon_and_gives_it_back_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portal.services.groups.LINGERS", 3.0)  # on a crowded machine soon is late
    groups: Groups[int, int] = Groups(list, "test")
    given_back = threading.Event()

    with patch.object(connections, "close_all", side_effect=given_back.set):
        assert [await groups.submit(number) for number in range(5)] == [0, 1, 2, 3, 4]
        assert not given_back.is_set()
        assert await asyncio.to_thread(given_back.wait, 10)
