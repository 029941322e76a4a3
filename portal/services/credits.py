"""What operators do to credits: give them, correct them. Each act is audited with the ledger."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

from django.db import transaction
from django.dispatch import Signal

from portal.models.fields import MOST, is_amount
from portal.models.ledger import CreditAccount, LedgerEntry
from portal.models.teams import Team
from portal.models.users import User
from portal.services import audit, ledger
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.wire.amounts import plain

refunding = Signal()
"""Sent with `subject` and `amount` in the transaction of a refund, before it takes the account's lock:
whoever keeps a row about the subject says so there, too."""


@transaction.atomic
def grant_to_user(
    user: User, amount: Decimal, *, reason: str, actor: Principal | None, once: str = ""
) -> bool:
    """Own credits, which do not end with the month. Raises Invalid.

    `once` names the act: a second one of that name does nothing and is False.
    """
    account = CreditAccount.objects.filter(user=user).first() or ledger.open_account(user, credits=Decimal(0))
    return _grant(account, f"user:{user.pk}", amount, reason, actor, once)


@transaction.atomic
def grant_to_team(
    team: Team, amount: Decimal, *, reason: str, actor: Principal | None, once: str = ""
) -> bool:
    """Credits of the team's pool, on which its members draw last. Raises Invalid."""
    return _grant(ledger.open_pool(team), f"team:{team.pk}", amount, reason, actor, once)


@transaction.atomic
def refund_charge(subject: str, *, reason: str, actor: Principal | None) -> Decimal:
    """Give back all that was charged for `subject`; the amount. Raises Invalid."""
    closed = LedgerEntry.objects.filter(subject=subject, kind=LedgerEntry.Kind.CLOSE).first()
    settled: Decimal | None = closed.settled if closed else None
    if not settled:
        raise Invalid(f"nothing was charged for {subject}")
    refunding.send(LedgerEntry, subject=subject, amount=settled)
    try:
        ledger.refund(subject, settled, reason=reason, actor_id=actor.user_id if actor else None)
    except ledger.NotRefundable:
        raise Invalid(f"{subject} was refunded before") from None
    audit.record(actor, "credits.refunded", subject, amount=plain(settled), reason=reason)
    return settled


def _grant(
    account: CreditAccount, target: str, amount: Decimal, reason: str, actor: Principal | None, once: str
) -> bool:
    if not is_amount(amount) or amount <= 0:
        raise Invalid(f"give more than 0 and at most {plain(MOST)} credits, to four decimal places", "amount")
    if not is_amount(account.own + amount):
        raise Invalid(f"nobody may have more than {plain(MOST)} credits", "amount")
    done = ledger.grant(
        account,
        amount,
        grant_key=once or f"act:{uuid4().hex}",
        reason=reason,
        actor_id=actor.user_id if actor else None,
    )
    if done:
        audit.record(actor, "credits.granted", target, amount=plain(amount), reason=reason)
    return done
