"""Chats that begin or end at the same time, opened and settled in one transaction.

A round does what `open_turn` and `settle` do, for its plain cases: a question without a daily limit and
with enough in its user's own purses, an answer that came whole. Whatever is not plain, and everything when
the round itself fails, is done alone by those two. Lock order as everywhere: accounts, turns, ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from portal.models.audit import AuditEntry
from portal.services import audit, ledger_many
from portal.services.groups import Groups
from portal.services.principal import Principal
from portal.services.rows import Statement, begin, end, insert_values, update
from portal.services.trips import with_prepared
from portal.wire.errors import Problem, unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.protocol.model_table import Model
from proxy.services import continuity, glance
from proxy.services.accounts import SUCCESS, is_of_pool, loads, lock_pool, may_be_asked, rank, succeed
from proxy.services.catalog import Offer, offer_of, those_named
from proxy.services.chat import Busy, ChatPlan, Question, open_turn, plan_with, turn_values
from proxy.services.continuity import Found
from proxy.services.settling import Outcome, Settled, ending_of, settle, thread_of, told
from proxy.services.threads import in_thread

log = logging.getLogger(__name__)

State = ChatTurn.State


class Prepare(Protocol):
    """The cheap checks of a question: `prepare_chat` but for the offer. Raises Problem."""

    def __call__(self, *, offer: Offer | None) -> Question: ...


@dataclass(frozen=True, slots=True)
class Opening:
    """A question that wants in; `model` is the name it asks for, `asked` the account that it was put to."""

    who: Principal
    model: str
    prepare: Prepare
    asked: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer that is over."""

    plan: ChatPlan
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Opened:
    """`plan` is None while every account has its hands full."""

    question: Question
    plan: ChatPlan | None


class Left(Enum):
    """Not plain: to be done alone."""

    LEFT = auto()


LEFT = Left.LEFT
Work = Opening | Ended
Result = Opened | Settled | Left
MOST_WAITING = 1_000


async def open_soon(opening: Opening) -> Opened:
    """Raises what `prepare` and `open_turn` raise, but for Busy; Unavailable when too many wait."""
    if _groups.waiting >= MOST_WAITING:
        raise unavailable()
    opened = await _groups.submit(opening)
    if isinstance(opened, Opened):
        return opened
    return await open_alone(opening)


async def open_alone(opening: Opening) -> Opened:
    """The same for a question that takes its time: nobody waits behind it."""
    return await in_thread(partial(_open_alone, opening))


async def settle_soon(ended: Ended) -> Settled:
    """As `settle` does it."""
    settled = await _groups.submit(ended) if _is_plain(ended) else LEFT
    if isinstance(settled, Settled):
        return settled
    return await in_thread(partial(settle, ended.plan, ended.outcome))


def _open_alone(opening: Opening) -> Opened:
    question = opening.prepare(offer=None)
    try:
        return Opened(question, open_turn(question))
    except Busy:
        return Opened(question, None)


def do_round(works: Sequence[Work]) -> list[Result | BaseException]:
    """What becomes of each, in order."""
    asked_at = glance.moment()
    try:
        this, done = with_prepared(partial(_attempt, works))
    except Exception as error:  # whoever caused it meets it again, alone
        log.info("%s chats are done one by one: %s", len(works), type(error).__name__)
        done = {}
    else:
        this.tell(asked_at)
    return [done.get(place, LEFT) for place in range(len(works))]


@transaction.atomic
def _attempt(works: Sequence[Work]) -> tuple[_Round, dict[int, Result | BaseException]]:
    this = _Round(works)
    return this, this.run()


class _Round:
    """One transaction's worth of works. What it has no result for has left no trace in it."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._endings = {
            place: work for place, work in enumerate(works) if isinstance(work, Ended) and _is_plain(work)
        }
        self._openings = {place: work for place, work in enumerate(works) if isinstance(work, Opening)}
        self._done: dict[int, Result | BaseException] = {}
        self._touched: set[WebAccount] = set()
        self._ables: dict[tuple[str | None, bool], list[WebAccount]] = {}

    def run(self) -> dict[int, Result | BaseException]:
        ending = [work.plan for work in self._endings.values()]
        users = {work.who.user_id for work in self._openings.values()}
        # Those of the endings as well: whoever had an answer asks again, and may be asked for ahead.
        names = {work.model for work in self._openings.values()} | {
            plan.question.request.model for plan in ending
        }
        accounts, closed, models, busy, credits, entries = begin(
            lock_pool({plan.session.account_id for plan in ending}),
            update(
                ChatTurn,
                {
                    work.plan.question.turn_id: ending_of(work.plan, work.outcome)
                    for work in self._endings.values()
                },
                state=State.OPEN,
            ),
            those_named(names),
            loads(),
            *ledger_many.reads(users, [plan.question.subject for plan in ending if plan.question.price]),
        )
        self._accounts = {account.pk: account for account in accounts}
        self._pool = [account for account in accounts if is_of_pool(account)]
        self._busy = dict(busy)
        self._offer = offer_of(models, self._pool)
        books = ledger_many.Books(credits, entries)
        threads = self._end(closed or set(), books)
        plans = self._choose(self._prepare())
        opening = self._open(plans, books)
        self._purses = books.left()
        end(
            update(
                WebAccount, {one.pk: {name: getattr(one, name) for name in SUCCESS} for one in self._touched}
            ),
            *opening,
            continuity.keeping(threads),
        )
        return self._done

    def tell(self, asked_at: float) -> None:
        """What is so once it is committed, to whoever comes next."""
        pool = glance.Pool(tuple(self._pool), self._busy, self._offer.tier)
        glance.keep(pool, self._offer.models, self._purses, asked_at)

    def _end(self, closed: set[UUID], books: ledger_many.Books) -> list[continuity.Row]:
        """What becomes of answers whose turns this round has `closed`; the threads to be kept."""
        threads, over = [], []
        for place, work in self._endings.items():
            plan, outcome = work.plan, work.outcome
            account = self._accounts.get(plan.session.account_id)
            if account is not None:
                succeed(account, counted=plan.question.model.counted, opened_at=plan.opened_at)
                self._touched.add(account)
            if plan.question.turn_id not in closed:
                self._done[place] = Settled()
                continue
            over.append(plan.question)
            assert outcome.done is not None
            threads += [thread] if (thread := thread_of(plan, outcome.done, outcome.text)) else []
            self._done[place] = told(plan, outcome.done, account)
        books.settle([ledger_many.Ending(one.subject, one.price) for one in over if one.price])
        return threads

    def _prepare(self) -> dict[int, Question]:
        questions = {}
        for place, work in self._openings.items():
            try:
                question = work.prepare(offer=self._offer)
            except Problem as problem:
                self._done[place] = problem
                continue
            if question.is_plain:
                questions[place] = question
        return questions

    def _choose(self, questions: dict[int, Question]) -> dict[int, ChatPlan]:
        """An account for each question that finds one with a free place."""
        now, plans = timezone.now(), {}
        for (place, question), found in zip(questions.items(), self._threads(questions), strict=True):
            preferred = found.account_id if found else self._openings[place].asked
            able = self._able(question.model, now)
            free = [account for account in able if self._load(account) < account.parallel_limit]
            if free:
                best = min(free, key=lambda one: (one.pk != preferred, *rank(one, self._load(one))))
                self._busy[best.pk] = self._load(best) + 1
                plans[place] = plan_with(question, best, found)
            elif able:
                self._done[place] = Opened(question, None)
        return plans

    def _able(self, model: Model, now: datetime) -> list[WebAccount]:
        """The accounts that may be asked for `model`, whatever they are doing. After `_end`, which counts."""
        kind = model.needs, model.counted
        if kind not in self._ables:
            may = partial(may_be_asked, now=now, tier_needed=model.needs, counted=model.counted)
            self._ables[kind] = [account for account in self._pool if may(account)]
        return self._ables[kind]

    def _threads(self, questions: dict[int, Question]) -> list[Found | None]:
        """The thread that each question may continue."""
        asked = [
            (question.filing, question.conversation) if question.conversation.may_continue else None
            for question in questions.values()
        ]
        pool = [account.pk for account in self._pool]
        found = iter(continuity.find_threads([pair for pair in asked if pair], pool))
        return [next(found) if pair else None for pair in asked]

    def _load(self, account: WebAccount) -> int:
        return int(self._busy.get(account.pk, 0))

    def _open(self, plans: dict[int, ChatPlan], books: ledger_many.Books) -> list[Statement | None]:
        """Of the questions that have an account, those that are paid for are open."""
        paid = {place: plan for place, plan in plans.items() if _is_paid(plan.question, books)}
        self._done |= {place: Opened(plan.question, plan) for place, plan in paid.items()}
        questions = [plan.question for plan in paid.values()]
        return [
            *books.writes(),
            insert_values(ChatTurn, [_turn_of(plan) for plan in paid.values()]),
            insert_values(
                AuditEntry,
                [
                    audit.values(one.who, "chat.started", one.subject, model=one.model.id, door=one.door)
                    for one in questions
                ],
            ),
        ]


def _is_paid(question: Question, books: ledger_many.Books) -> bool:
    who = question.who
    hold = ledger_many.Hold(who.user_id, question.subject, question.price, who.key_id)
    return not question.price or books.hold(hold)


def _is_plain(work: Ended) -> bool:
    """It came whole, and in a chat of its own."""
    outcome = work.outcome
    is_whole = outcome.done is not None and outcome.problem is None and outcome.delivered
    return is_whole and work.plan.question.is_plain


def _turn_of(plan: ChatPlan) -> dict[str, Any]:
    session = plan.session
    return turn_values(plan.question, session.account_id, sandbox=session.upstream.sandbox)


_groups: Groups[Work, Result] = Groups(do_round, "chats")
