"""Long texts keep nobody else waiting."""

from __future__ import annotations

import asyncio
import threading

from proxy.protocol.delta import Delta, Text
from proxy.protocol.finishing import Finisher
from proxy.services.long_texts import LONG, cleaned


class Cleaner(Finisher):
    """Says where it was called, and takes as long as the test wants."""

    thread: threading.Thread | None = None
    may_end: threading.Event | None = None

    def pass_on(self, deltas: list[Delta]) -> list[Delta]:
        self.thread = threading.current_thread()
        if self.may_end:
            assert self.may_end.wait(10)
        return super().pass_on(deltas)


async def test_it_cleans_a_long_text_while_the_loop_goes_on() -> None:
    cleaner = Cleaner()
    cleaner.may_end = threading.Event()
    under_way = asyncio.create_task(cleaned(cleaner, [Text("The tide. " * (LONG // 5))]))
    await asyncio.sleep(0.01)
    assert not under_way.done()
    cleaner.may_end.set()
    (told,) = await under_way
    assert isinstance(told, Text)
    assert told.text.strip() == ("The tide. " * (LONG // 5)).strip()
    assert cleaner.thread is not threading.current_thread()


async def test_it_hands_no_short_text_to_another_thread() -> None:
    cleaner = Cleaner()
    assert await cleaned(cleaner, [Text("The tide"), Text(" turns.")]) == [Text("The tide"), Text(" turns.")]
    assert cleaner.thread is threading.current_thread()
