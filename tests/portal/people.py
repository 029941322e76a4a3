"""A tiny cast for the portal's tests, and a way to move the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from threading import Barrier
from typing import TypeVar
from unittest.mock import patch
from uuid import uuid4

from django.db import connection
from django.utils import timezone

from portal.models.ledger import CreditAccount
from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.services import ledger, users
from portal.services.ledger import Balance
from portal.services.principal import Principal, principal_of

Found = TypeVar("Found")


def somebody(credits: int | str | None = 10, *, team: Team | None = None, admin: bool = False) -> User:
    """A new user with exactly `credits` of their own, or with the plan's allowance for None."""
    amount = None if credits is None else Decimal(credits)
    return users.create_user(f"{uuid4().hex[:12]}@example.org", team=team, credits=amount, is_admin=admin)


def an_admin() -> Principal:
    return principal_of(somebody(admin=True))


def a_team(pool: int | str = 0) -> Team:
    """A new team, with `pool` credits in its pool."""
    team = Team.objects.create(name=f"Team {uuid4().hex[:8]}")
    if pool:
        ledger.grant(
            ledger.open_pool(team), Decimal(pool), grant_key="first", reason="for the tests", actor_id=None
        )
    return team


def leads(user: User) -> Principal:
    """Make the user a lead of their team."""
    Membership.objects.filter(user=user).update(role=Membership.Role.LEAD)
    return principal_of(user)


def amounts(balance: Balance) -> tuple[str, str, str, str]:
    """Allowance, own, pool, reserved."""
    parts = (balance.allowance, balance.own, balance.pool, balance.reserved)
    return tuple(f"{part:f}" for part in parts)  # type: ignore[return-value]  # four of them


def credits_of(user: User) -> CreditAccount:
    return CreditAccount.objects.get(user=user)


@contextmanager
def the_clock_at(moment: datetime) -> Iterator[None]:
    with patch.object(timezone, "now", lambda: moment):
        yield


def all_at_once(number: int, act: Callable[[int], Found]) -> list[Found | Exception]:
    """What each of `number` threads got, each with a database connection of its own."""
    barrier = Barrier(number)

    def run(place: int) -> Found | Exception:
        try:
            barrier.wait(timeout=30)
            return act(place)
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))
