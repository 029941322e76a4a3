"""Reads that more than one door needs. What is not the caller's does not exist here."""

from __future__ import annotations

from django.db.models import QuerySet

from portal.models.keys import ApiKey
from portal.models.ledger import LedgerEntry
from portal.models.teams import Team
from portal.wire.errors import not_found


def keys_of(user_id: int) -> QuerySet[ApiKey]:
    """The user's keys, revoked ones too, newest first."""
    return ApiKey.objects.filter(user_id=user_id)


def find_key(user_id: int, public_id: str) -> ApiKey:
    """The user's own key; every other id is answered like an unknown one."""
    key = keys_of(user_id).filter(public_id=public_id).first()
    if key is None:
        raise not_found()
    return key


def entries_of(user_id: int) -> QuerySet[LedgerEntry]:
    """What moved the user's credits, newest first."""
    return LedgerEntry.objects.filter(account__user_id=user_id)


def team_of(user_id: int) -> Team | None:
    return Team.objects.filter(memberships__user_id=user_id).first()
