"""Whose account answers one question: the first that has a place, and another when that one cannot.

Before the first text a failed ask is tried elsewhere: an account's own trouble at another account, a broken
connection once more at the same one where there is no other, a dead session with the cookies that came
meanwhile. What an account did wrong is noted as the turn moves on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from django.conf import settings

from portal.wire.errors import Problem
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.verdicts import EFFECTS
from proxy.services import rotation
from proxy.services.chat import Busy, ChatPlan, ask_anew, move_turn, with_latest_cookies
from proxy.services.threads import in_thread

MOST_ACCOUNTS = 6
"""Accounts that one question may be put to."""
MOST_FRESH = 5
"""Times that one account may be asked again since its cookies have changed meanwhile."""
WAITS = (0.1, 1.0)
"""Seconds between two looks for a free place: at first, and at most."""
GRACE_SECONDS = 0.1
"""What another answer gets to store the token that explains why this one was refused."""
_ABOUT_THE_SESSION = frozenset({FaultKind.SIGNED_OUT, FaultKind.FORBIDDEN})
_NO_CONNECTION = frozenset({FaultKind.CUT, FaultKind.UNREACHABLE})
"""They say nothing about an account."""


class Placing:
    """`plan` is None until a place was found."""

    def __init__(self, plan: ChatPlan | None) -> None:
        self.plan = plan
        self._tried: set[int] = set()
        self._is_repeated = False
        self._fresh = 0
        self._making: asyncio.Future[ChatPlan] | None = None

    @property
    def planned(self) -> ChatPlan:
        if self.plan is None:
            raise RuntimeError("nothing was opened")
        return self.plan

    async def wait_for_place(self, take: Callable[[], ChatPlan]) -> None:
        """Until `take` finds one. Raises Busy when CHAT_WAIT_SECONDS are over."""
        until = time.monotonic() + settings.CHAT_WAIT_SECONDS
        pause, longest = WAITS
        while True:
            try:
                return await self._plan_by(take)
            except Busy:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 1.5, longest)

    async def refresh(self, fault: Fault) -> bool:
        """Whether the account is asked again with cookies that came since."""
        if self._fresh >= MOST_FRESH:
            return False
        if fault.kind not in _ABOUT_THE_SESSION:
            return False
        await asyncio.sleep(GRACE_SECONDS)
        plan = self.planned
        fresh = await in_thread(partial(with_latest_cookies, plan))
        if fresh.session.jar == plan.session.jar:
            return False
        rotation.learn(plan.session.account_id)
        self._fresh += 1
        self.plan = fresh
        return True

    async def take_latest_cookies(self) -> None:
        self.plan = await in_thread(partial(with_latest_cookies, self.planned))

    async def ask_anew(self) -> None:
        """The thread was refused: the same account, with the whole conversation."""
        await self._plan_by(partial(ask_anew, self.planned))

    def may_move(self, fault: Fault) -> bool:
        """Whether another account may do better than the one that `fault` is about, which counts as tried."""
        self._tried.add(self.planned.session.account_id)
        return EFFECTS[fault.kind].elsewhere and len(self._tried) < MOST_ACCOUNTS

    async def move(self, fault: Fault) -> None:
        """To another account; `fault` is noted. Raises the Problem that the answer ends in."""
        plan = self.planned
        try:
            await self._move(plan, fault)
        except Problem:
            if self._is_repeated or fault.kind not in _NO_CONNECTION:
                raise
            self._is_repeated = True
            self._making = None

    async def made(self) -> ChatPlan | None:
        """The plan, once that which is under way is made as well: somebody has to release it."""
        if self._making is not None:
            with suppress(Exception):
                self.plan = await self._making
        return self.plan

    async def _move(self, plan: ChatPlan, fault: Fault) -> None:
        try:
            await self._plan_by(partial(move_turn, plan, fault, self._tried))
        except Busy:
            await self.wait_for_place(partial(move_turn, plan, None, self._tried))

    async def _plan_by(self, work: Callable[[], ChatPlan]) -> None:
        """Take the plan that `work` makes. When the caller leaves meanwhile, `made` waits for it."""
        self._making = asyncio.ensure_future(in_thread(work))
        self.plan = await asyncio.shield(self._making)
        self._making = None
