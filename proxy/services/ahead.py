"""Questions that are put to the upstream while the round that opens their turns is under way.

Nothing of the answer is read before the turn is open and paid for: until then its bytes wait in the
connection. When the round refuses the question, or has another account answer it, the upstream is left
at once and nobody hears of it. So that this is rare, a question is asked ahead only where what the last
rounds saw (glance.py) leaves no doubt: its user can pay a hundred like it, and its account has more than
half of its places free. Whatever needs the database beforehand, such as a thread that goes on, is not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Protocol

from django.db import Error
from django.utils import timezone

from portal.services.principal import Principal
from portal.wire.errors import Problem
from proxy.models.accounts import WebAccount
from proxy.protocol.chat import ChatRequest
from proxy.protocol.delta import Fault
from proxy.protocol.model_table import Model
from proxy.services import glance, rotation
from proxy.services.accounts import may_be_asked, rank
from proxy.services.catalog import Offer
from proxy.services.chat import ChatPlan, Question, plan_with, prepare_chat
from proxy.services.glance import Pool
from proxy.services.prompts import needs_whitelist
from proxy.services.together import Opened, Opening, Prepare, open_soon
from proxy.upstream import web

MARGIN = 100
"""Chats of its price that a user's own purses must hold: more than one round can take."""


class Gone(Problem):
    """The caller left before a round took the question: nothing was opened."""


class Caller(Protocol):
    """Whoever waits for an answer; they are watched."""

    @property
    def left(self) -> bool: ...

    def telling(self, leave: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the block `leave` is called when they leave, or have left."""


_leaving: set[asyncio.Task[None]] = set()
# Of this process's questions whose rounds are not over: how many were put to each account.
_pending: Counter[int] = Counter()


class Ahead:
    """A question on its way to the account of `plan`, which no round has confirmed yet."""

    def __init__(self, plan: ChatPlan, offer: Offer) -> None:
        self._plan = plan
        self._offer = offer
        self._is_left = False
        self._asking = asyncio.create_task(web.ask(plan.session, plan.ask, web.new_ids()))

    @property
    def account_id(self) -> int:
        return self._plan.session.account_id

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Among those that the account may be answering."""
        _pending[self.account_id] += 1
        try:
            yield
        finally:
            _pending[self.account_id] -= 1

    def question(self, prepare: Prepare, *, offer: Offer | None) -> Question:
        """The question for a round that sees `offer`: the same, unless that is another by now."""
        mine = self._plan.question
        if offer is not None and self._offer.agrees(offer, mine.request.model):
            return mine
        return prepare(offer=offer)

    def is_of(self, plan: ChatPlan) -> bool:
        """Whether what was asked is what `plan` says."""
        mine = self._plan
        return plan.question is mine.question and plan.session == mine.session and plan.follows is None

    async def answer(self) -> web.Opened | Fault:
        """To be taken once. Whoever is cancelled meanwhile leaves the upstream."""
        try:
            return await self._asking
        except asyncio.CancelledError:
            self.leave()  # it may have come at this very moment
            raise

    def leave(self) -> None:
        """Nobody will take the answer."""
        if self._is_left:
            return
        self._is_left = True
        task = asyncio.create_task(self._leave())
        _leaving.add(task)
        task.add_done_callback(_leaving.discard)

    async def _leave(self) -> None:
        self._asking.cancel()
        with suppress(asyncio.CancelledError, Error):
            opened = await self._asking
            if isinstance(opened, web.Opened):
                await opened.close()  # at once: cookies wait for whoever has locked the account
                await rotation.keep_cookies(self._plan.session, opened)


async def open_ahead(
    who: Principal, request: ChatRequest, door: str, caller: Caller
) -> tuple[Opened, Ahead | None]:
    """What `open_soon` gives and raises, and the question if it is on its way as the turn says.

    When the caller leaves, what is on its way is left at once. A turn that is opened all the same is
    given: its relay is to give it up. Raises `Gone` where none was.
    """
    prepare: Prepare = partial(prepare_chat, who, request, door)
    ahead = _ask(who, request, door)
    if ahead is None:
        return await open_soon(Opening(who, request.model, while_there(caller, prepare))), None
    prepare = while_there(caller, partial(ahead.question, prepare))
    opening = Opening(who, request.model, prepare, ahead.account_id)
    try:
        with ahead.counted(), caller.telling(ahead.leave):
            opened = await open_soon(opening)
    except BaseException:
        ahead.leave()
        raise
    if opened.plan is not None and ahead.is_of(opened.plan) and not caller.left:
        return opened, ahead
    ahead.leave()
    return opened, None


def while_there(caller: Caller, prepare: Prepare) -> Prepare:
    """`prepare`, which raises `Gone` once the caller has left: a round passes over their question."""

    def prepare_for_caller(*, offer: Offer | None) -> Question:
        if caller.left:
            raise Gone("The caller has left.")
        return prepare(offer=offer)

    return prepare_for_caller


def _ask(who: Principal, request: ChatRequest, door: str) -> Ahead | None:
    """None where anything is in doubt: then the round says what is wrong, if something is."""
    priced, pool, purse = glance.priced(request.model), glance.pool(), glance.purse(who.user_id)
    if priced is None or pool is None or (priced.price and (purse or 0) < MARGIN * priced.price):
        return None
    if not _needs_no_database(who, request):
        return None
    offer = Offer({request.model: priced}, pool.tier)
    account = _account_for(priced.model, pool)
    if account is None or not rotation.is_free(account.pk):
        return None
    try:
        question = prepare_chat(who, request, door, offer=offer)
        if question.is_plain and not question.conversation.may_continue:
            return Ahead(plan_with(question, account), offer)
    except Problem:
        pass
    return None


def _needs_no_database(who: Principal, request: ChatRequest) -> bool:
    if request.attachments or request.bridge:
        return False
    roles = {message.role for message in request.messages}
    return not needs_whitelist(who.chat, has_system_text=not roles.isdisjoint(("system", "developer")))


def _account_for(model: Model, pool: Pool) -> WebAccount | None:
    """As the round will choose, if it is in no doubt about the account."""
    now = timezone.now()

    def load(account: WebAccount) -> int:
        return pool.loads.get(account.pk, 0) + _pending[account.pk]

    able = [
        account
        for account in pool.accounts
        if load(account) * 2 < account.parallel_limit
        and may_be_asked(account, now=now, tier_needed=model.needs, counted=model.counted)
    ]
    return min(able, key=lambda one: rank(one, load(one)), default=None)
