"""A tiny cast: users with credits, and what they ask."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

from portal.models.keys import Scope
from portal.services import users
from portal.services.principal import Principal
from research.models.runs import Door, Run
from research.protocol.options import RunRequest
from research.services.start import start_run


def somebody(credits: int | str = 10) -> Principal:
    """A new user with exactly `credits` credits of their own."""
    user = users.create_user(f"{uuid4().hex[:12]}@example.org", credits=Decimal(credits))
    return Principal(user.pk, frozenset(Scope.values))


def ask(who: Principal, question: str = "Why is the sky blue?", **fields: object) -> Run:
    return start_run(who, RunRequest(question, **fields), Door.REST).run  # type: ignore[arg-type]
