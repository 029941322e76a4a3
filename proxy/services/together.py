"""Chats that begin or end at the same time, opened and settled in one transaction.

A round does what `open_turn` and `settle` do, for its plain cases: a question without a daily limit and
with enough in its user's own purses, an answer that came whole. Whatever is not plain, and everything when
the round itself fails, is done alone by those two. Lock order as everywhere: accounts, turns, ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Protocol

from django.db import transaction
from django.utils import timezone

from portal.services import audit, ledger_many
from portal.services.groups import Groups
from portal.services.ledger_many import Hold
from portal.services.rows import insert_rows, update_rows
from portal.wire.errors import Problem, unavailable
from proxy.models.accounts import WebAccount
from proxy.models.chats import ChatTurn
from proxy.services import continuity
from proxy.services.accounts import SUCCESS, loads, lock_pool, may_be_asked, rank, succeed
from proxy.services.catalog import Offer, read_offer
from proxy.services.chat import Busy, ChatPlan, Question, open_turn, plan_with, turn_row
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
    """A question that wants in; `model` is the name it asks for."""

    model: str
    prepare: Prepare


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
    settled = await _groups.submit(ended)
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
    try:
        with transaction.atomic():
            done = _Round(works).run()
    except Exception as error:  # whoever caused it meets it again, alone
        log.info("%s chats are done one by one: %s", len(works), type(error).__name__)
        done = {}
    return [done.get(place, LEFT) for place in range(len(works))]


class _Round:
    """One transaction's worth of works. What it has no result for has left no trace in it."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._endings = {
            place: work for place, work in enumerate(works) if isinstance(work, Ended) and _is_plain(work)
        }
        self._openings = {place: work for place, work in enumerate(works) if isinstance(work, Opening)}
        self._done: dict[int, Result | BaseException] = {}

    def run(self) -> dict[int, Result | BaseException]:
        accounts = lock_pool({work.plan.session.account_id for work in self._endings.values()})
        ended = self._end(accounts)
        questions = self._prepare(accounts)
        chosen = self._choose(questions, accounts)
        paid = [questions[place] for place in chosen if questions[place].price]
        held = ledger_many.move(
            [Hold(one.who.user_id, one.subject, one.price, one.who.key_id) for one in paid],
            [ledger_many.Ending(one.subject, one.price) for one in ended if one.price],
        )
        self._open(
            questions,
            {
                place: plan
                for place, plan in chosen.items()
                if not questions[place].price or questions[place].subject in held
            },
        )
        return self._done

    def _end(self, accounts: dict[int, WebAccount]) -> list[Question]:
        """Close the turns; the questions whose money is still to be moved."""
        changes = {
            work.plan.question.turn_id: ending_of(work.plan, work.outcome) for work in self._endings.values()
        }
        closed = update_rows(ChatTurn, changes, state=State.OPEN)
        threads, ended, touched = [], [], {}
        for place, work in self._endings.items():
            plan, outcome = work.plan, work.outcome
            question, account = plan.question, accounts.get(plan.session.account_id)
            if account is not None:
                succeed(account, counted=question.model.counted, opened_at=plan.opened_at)
                touched[account.pk] = account
            if question.turn_id not in closed:
                self._done[place] = Settled()
                continue
            ended.append(question)
            assert outcome.done is not None
            thread = thread_of(plan, outcome.done, outcome.text)
            threads += [thread] if thread else []
            self._done[place] = told(plan, outcome.done, account)
        update_rows(
            WebAccount,
            {key: {name: getattr(one, name) for name in SUCCESS} for key, one in touched.items()},
        )
        if threads:
            continuity.keep_threads(threads)
        return ended

    def _prepare(self, accounts: dict[int, WebAccount]) -> dict[int, Question]:
        names = {work.model for work in self._openings.values()}
        offer = read_offer(names, accounts.values())
        questions = {}
        for place, work in self._openings.items():
            try:
                question = work.prepare(offer=offer)
            except Problem as problem:
                self._done[place] = problem
                continue
            if question.is_plain:
                questions[place] = question
        return questions

    def _choose(self, questions: dict[int, Question], accounts: dict[int, WebAccount]) -> dict[int, ChatPlan]:
        """An account for each question that finds one with a free place."""
        if not questions:
            return {}
        now, busy, plans = timezone.now(), loads(), {}
        for (place, question), found in zip(questions.items(), _threads(questions, accounts), strict=True):
            model, preferred = question.model, found.account_id if found else None
            may = partial(may_be_asked, now=now, tier_needed=model.needs, counted=model.counted)
            free = [one for one in accounts.values() if may(one) and busy.get(one.pk, 0) < one.parallel_limit]
            if free:
                best = min(free, key=lambda one: (one.pk != preferred, *rank(one, busy.get(one.pk, 0))))
                busy[best.pk] = busy.get(best.pk, 0) + 1
                plans[place] = plan_with(question, best, found)
            elif any(may(one) for one in accounts.values()):
                self._done[place] = Opened(question, None)
        return plans

    def _open(self, questions: dict[int, Question], plans: dict[int, ChatPlan]) -> None:
        insert_rows([_turn_of(plan) for plan in plans.values()])
        insert_rows(
            [
                audit.row(one.who, "chat.started", one.subject, model=one.model.id, door=one.door)
                for one in (questions[place] for place in plans)
            ]
        )
        self._done |= {place: Opened(questions[place], plan) for place, plan in plans.items()}


def _is_plain(work: Ended) -> bool:
    """It came whole, and in a chat of its own."""
    outcome = work.outcome
    is_whole = outcome.done is not None and outcome.problem is None and outcome.delivered
    return is_whole and work.plan.question.is_plain


def _turn_of(plan: ChatPlan) -> ChatTurn:
    session = plan.session
    turn = turn_row(plan.question, None, sandbox=session.upstream.sandbox)
    turn.account_id = session.account_id
    return turn


def _threads(questions: dict[int, Question], accounts: dict[int, WebAccount]) -> list[Found | None]:
    """The thread that each question may continue."""
    asked = [
        (one.filing, one.conversation) if one.conversation.may_continue else None
        for one in questions.values()
    ]
    found = iter(continuity.find_threads([pair for pair in asked if pair], list(accounts)))
    return [next(found) if pair else None for pair in asked]


_groups: Groups[Work, Result] = Groups(do_round, "chats")
