"""Reads that more than one door needs. What is not the caller's does not exist here."""

from __future__ import annotations

import re

from django.db.models import QuerySet

from portal.models.keys import ApiKey
from portal.models.ledger import LedgerEntry
from portal.models.teams import Team
from portal.models.users import User
from portal.wire.errors import not_found

# What the database may be asked for: PostgreSQL refuses text with NUL in it.
PUBLIC_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)


def keys_of(user_id: int) -> QuerySet[ApiKey]:
    """The user's keys, revoked ones too, newest first."""
    return ApiKey.objects.filter(user_id=user_id)


def find_key(user_id: int, public_id: str) -> ApiKey:
    """The user's own key; every other id is answered like an unknown one."""
    key = keys_of(user_id).filter(public_id=public_id).first() if PUBLIC_ID.fullmatch(public_id) else None
    if key is None:
        raise not_found()
    return key


def entries_of(user_id: int) -> QuerySet[LedgerEntry]:
    """What moved the user's credits, newest first."""
    return LedgerEntry.objects.filter(account__user_id=user_id)


def team_of(user_id: int) -> Team | None:
    return Team.objects.filter(memberships__user_id=user_id).first()


def admin_emails(most: int = 3) -> list[str]:
    """Whom to ask: admins who can log in, longest first."""
    admins = User.objects.filter(is_staff=True, is_active=True).order_by("pk")
    return list(admins.values_list("email", flat=True)[:most])
