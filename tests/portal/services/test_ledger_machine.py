"""The ledger against a model of it, under every order of events that hypothesis can think of.

Two people of one team reserve, close, refund and are granted credits while months pass. After each
step the balances are the model's, and at the end the books prove themselves (I1 to I3 of STACK §4.5): what
was written once stays, and so does what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from portal.models.ledger import CreditAccount, LedgerEntry
from portal.services import ledger
from portal.services.ledger_check import check
from portal.services.ledger_many import Ending, Hold, move
from tests.portal.people import a_team, somebody, the_clock_at

ALLOWANCE = Decimal(100)
MONTHS = [datetime(2026 + month // 12, month % 12 + 1, 15, tzinfo=UTC) for month in range(60)]

amounts = st.decimals(min_value=Decimal("0.0001"), max_value=120, places=4)
people = st.integers(0, 1)


@dataclass
class Purses:
    allowance: Decimal = ALLOWANCE
    own: Decimal = Decimal(0)


@dataclass
class Work:
    who: int
    month: int
    drawn: list[Decimal]
    """From allowance, own, pool."""
    settled: Decimal | None = None
    refunded: bool = False

    @property
    def amount(self) -> Decimal:
        return sum(self.drawn, Decimal(0))


@dataclass
class Books:
    pool: Decimal = Decimal(0)
    purses: list[Purses] = field(default_factory=lambda: [Purses(), Purses()])
    work: dict[str, Work] = field(default_factory=dict)


class Ledger(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        self.month, self.books = 0, Books()
        self.team = a_team()
        self.pool = ledger.open_pool(self.team)
        with the_clock_at(MONTHS[0]):
            self.users = [somebody(None, team=self.team) for _ in range(2)]
        self.accounts = [CreditAccount.objects.get(user=user) for user in self.users]

    def teardown(self) -> None:
        try:
            assert check() == []
        finally:
            transaction.set_rollback(True)
            self.undo.__exit__(None, None, None)

    def subjects(self, *, is_open: bool) -> list[str]:
        return [subject for subject, work in self.books.work.items() if (work.settled is None) == is_open]

    @rule(who=people, amount=amounts)
    def reserve(self, who: int, amount: Decimal) -> None:
        subject = f"run:{uuid4()}"
        purses = self.books.purses[who]
        affordable = amount <= purses.allowance + purses.own + self.books.pool
        with the_clock_at(MONTHS[self.month]):
            if not affordable:
                with pytest.raises(ledger.InsufficientCredit):
                    ledger.reserve(self.users[who].pk, subject, amount)
                return
            ledger.reserve(self.users[who].pk, subject, amount)
        from_allowance = min(amount, purses.allowance)
        from_own = min(amount - from_allowance, purses.own)
        from_pool = amount - from_allowance - from_own
        purses.allowance -= from_allowance
        purses.own -= from_own
        self.books.pool -= from_pool
        self.books.work[subject] = Work(who, self.month, [from_allowance, from_own, from_pool])

    @rule(data=st.data(), share=st.integers(0, 5))
    def close(self, data: st.DataObject, share: int) -> None:
        waiting = self.subjects(is_open=True)
        if not waiting:
            return
        subject = data.draw(st.sampled_from(waiting))
        work = self.books.work[subject]
        wanted = (work.amount * share / 4).quantize(Decimal("0.0001"))
        work.settled = min(wanted, work.amount)
        with the_clock_at(MONTHS[self.month]):
            closed = ledger.close(subject, wanted)
        assert closed == ledger.Closed(work.settled, work.amount - work.settled)
        self.give_back(work, work.amount - work.settled, keep=False)

    @rule(data=st.data(), wanted=st.lists(st.tuples(people, amounts), max_size=4))
    def work_together(self, data: st.DataObject, wanted: list[tuple[int, Decimal]]) -> None:
        """Several closes and reservations in one go, as busy doors make them; what is left is done alone."""
        waiting = self.subjects(is_open=True)
        over = data.draw(st.lists(st.sampled_from(waiting), unique=True, max_size=4)) if waiting else []
        shares = [data.draw(st.integers(0, 5)) for _ in over]
        endings = [
            Ending(subject, (self.books.work[subject].amount * share / 4).quantize(Decimal("0.0001")))
            for subject, share in zip(over, shares, strict=True)
        ]
        holds = [Hold(self.users[who].pk, f"run:{uuid4()}", amount, None) for who, amount in wanted]
        with the_clock_at(MONTHS[self.month]):
            held = move(holds, endings)
        for ending in endings:
            work = self.books.work[ending.subject]
            work.settled = min(ending.settled, work.amount)
            self.give_back(work, work.amount - work.settled, keep=False)
        for (who, amount), hold in zip(wanted, holds, strict=True):
            if hold.subject in held:
                purses = self.books.purses[who]
                from_allowance = min(amount, purses.allowance)
                purses.allowance -= from_allowance
                purses.own -= amount - from_allowance
                assert purses.own >= 0
                drawn = [from_allowance, amount - from_allowance, Decimal(0)]
                self.books.work[hold.subject] = Work(who, self.month, drawn)
        for who, amount in (
            pair for pair, hold in zip(wanted, holds, strict=True) if hold.subject not in held
        ):
            self.reserve(who, amount)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """What was done once is not done twice."""
        if not self.books.work:
            return
        subject = data.draw(st.sampled_from(sorted(self.books.work)))
        user = self.users[self.books.work[subject].who]
        with the_clock_at(MONTHS[self.month]):
            with pytest.raises((ledger.AlreadyReserved, ledger.InsufficientCredit)):
                ledger.reserve(user.pk, subject, Decimal("0.0001"))
            if self.books.work[subject].settled is not None:
                with pytest.raises(ledger.AlreadyClosed):
                    ledger.close(subject, Decimal(1))

    @rule(data=st.data(), amount=amounts)
    def refund(self, data: st.DataObject, amount: Decimal) -> None:
        done = self.subjects(is_open=False)
        if not done:
            return
        subject = data.draw(st.sampled_from(done))
        work = self.books.work[subject]
        assert work.settled is not None
        with the_clock_at(MONTHS[self.month]):
            if work.refunded or amount > work.settled:
                with pytest.raises(ledger.NotRefundable):
                    ledger.refund(subject, amount, reason="refund", actor_id=None)
                return
            ledger.refund(subject, amount, reason="refund", actor_id=None)
        work.refunded = True
        self.give_back(work, amount, keep=True)

    def give_back(self, work: Work, amount: Decimal, *, keep: bool) -> None:
        """To the purses, last drawn first; `keep` gives an ended allowance as own credits."""
        purses = self.books.purses[work.who]
        parts = []
        for place in (2, 1, 0):
            part = min(amount, work.drawn[place])
            work.drawn[place] -= part
            amount -= part
            parts.append(part)
        self.books.pool += parts[0]
        purses.own += parts[1]
        if work.month == self.month:
            purses.allowance += parts[2]
        elif keep:
            purses.own += parts[2]

    @rule(who=people, amount=amounts)
    def grant(self, who: int, amount: Decimal) -> None:
        key = f"gift {LedgerEntry.objects.count()}"
        for expected in (True, False):
            done = ledger.grant(self.accounts[who], amount, grant_key=key, reason="gift", actor_id=None)
            assert done is expected
        self.books.purses[who].own += amount

    @rule(amount=amounts)
    def fill_the_pool(self, amount: Decimal) -> None:
        key = f"gift {LedgerEntry.objects.count()}"
        ledger.grant(self.pool, amount, grant_key=key, reason="gift", actor_id=None)
        self.books.pool += amount

    @rule(who=people, amount=amounts)
    def take(self, who: int, amount: Decimal) -> None:
        """Only of own credits, which no month touches."""
        if amount <= self.books.purses[who].own:
            with the_clock_at(MONTHS[self.month]):
                ledger.adjust(self.accounts[who], -amount, reason="taken", actor_id=None)
            self.books.purses[who].own -= amount

    @rule()
    def let_a_month_pass(self) -> None:
        self.month = min(self.month + 1, len(MONTHS) - 1)
        for purses in self.books.purses:
            purses.allowance = ALLOWANCE

    @invariant()
    def balances_are_the_models(self) -> None:
        with the_clock_at(MONTHS[self.month]):
            for who, user in enumerate(self.users):
                purses = self.books.purses[who]
                open_work = [w for w in self.books.work.values() if w.who == who and w.settled is None]
                held = sum((work.amount for work in open_work), Decimal(0))
                found = ledger.balance_of(user.pk)
                assert found == ledger.Balance(purses.allowance, purses.own, self.books.pool, held)


@pytest.mark.slow
@pytest.mark.django_db
def test_it_keeps_the_books_whatever_happens() -> None:
    run_state_machine_as_test(
        Ledger,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
