"""Sessions whose token changes with every answer: asked one question at a time."""

from __future__ import annotations

import asyncio

from proxy.services import rotation


async def test_it_asks_a_session_that_rotates_one_question_at_a_time() -> None:
    rotation.learn(7)
    asking: list[int] = []
    most = 0

    async def ask(number: int) -> bool:
        nonlocal most
        async with rotation.in_turn(7) as cookies_may_be_old:
            asking.append(number)
            most = max(most, len(asking))
            await asyncio.sleep(0)
            asking.remove(number)
        return cookies_may_be_old

    assert await asyncio.gather(*map(ask, range(5))) == [True] * 5
    assert most == 1


async def test_it_lets_any_other_session_be_asked_at_once() -> None:
    async with rotation.in_turn(8) as first, rotation.in_turn(8) as second:
        assert (first, second) == (False, False)
