"""Requests that wait for their answers, of one client."""

from __future__ import annotations

import asyncio


class Owed:
    def __init__(self) -> None:
        self._ids: list[object] = []
        self._none = asyncio.Event()
        self._none.set()

    def add(self, to: object) -> None:
        """`to` is the id of a request."""
        self._ids.append(to)
        self._none.clear()

    def answered(self, to: object) -> None:
        """Or cancelled: that gets no answer."""
        if to in self._ids:
            self._ids.remove(to)
        if not self._ids:
            self._none.set()

    async def settled(self) -> None:
        await self._none.wait()
