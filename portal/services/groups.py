"""Work of many callers done in one transaction: while one round is under way, the next one gathers.

Nobody waits for company: work that comes alone is done at once, and alone. Under load a round takes
all that has come meanwhile, so that a statement, a lock or a commit serves many (QUALITY §1).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from django.db import Error, connections

Work = TypeVar("Work")
Result = TypeVar("Result")
MOST = 64
"""Pieces of work in a round: what is held locked while they are done stays short."""
LINGERS = 0.1
"""Seconds for which the thread keeps its connection when there is nothing to do: to take another and to look
whether it is alive costs a few callers as much as a round."""


class Groups(Generic[Work, Result]):
    """`do` gets the works of a round, in order of arrival, and gives a result or an exception for each.

    Rounds follow each other in one thread, which has a connection while there is something to do.
    """

    def __init__(self, do: Callable[[Sequence[Work]], Sequence[Result | BaseException]], name: str) -> None:
        self._do = do
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._changed = threading.Condition()
        self._waiting: list[tuple[Work, asyncio.Future[Result]]] = []
        self._is_running = False

    @property
    def waiting(self) -> int:
        """Pieces of work that no round has taken yet."""
        return len(self._waiting)

    async def submit(self, work: Work) -> Result:
        """The result of `work`; raises what it ended in. It is done to its end, whoever is cancelled."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._waiting.append((work, future))
            begins = not self._is_running
            self._is_running = True
            self._changed.notify()
        if begins:
            self._thread.submit(self._run)
        return await future

    def _run(self) -> None:
        try:
            while taken := self._take():
                self._round(taken)
        finally:
            with suppress(Error):
                connections.close_all()

    def _take(self) -> list[tuple[Work, asyncio.Future[Result]]]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, LINGERS)
            taken, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            self._is_running = bool(taken)
        return taken

    def _round(self, taken: list[tuple[Work, asyncio.Future[Result]]]) -> None:
        try:
            results = self._do([work for work, _ in taken])
        except BaseException as error:  # nobody is left waiting, whatever happened
            results = [error] * len(taken)
        for loop in {future.get_loop() for _, future in taken}:
            told = [(future, result) for (_, future), result in zip(taken, results, strict=True)]
            with suppress(RuntimeError):  # a loop that has ended has nobody left to tell
                loop.call_soon_threadsafe(_tell, loop, told)


def _tell(
    loop: asyncio.AbstractEventLoop, told: list[tuple[asyncio.Future[Result], Result | BaseException]]
) -> None:
    for future, result in told:
        if future.get_loop() is not loop or future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
