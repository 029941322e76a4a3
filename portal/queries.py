"""Reads that more than one door needs. What is not the caller's does not exist here."""

from __future__ import annotations

import re

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from portal.models.keys import ApiKey
from portal.models.ledger import LedgerEntry
from portal.models.teams import Invitation, Membership, Team
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


def members_of(team: Team) -> QuerySet[Membership]:
    """Leads first, then by how long they have been here."""
    return Membership.objects.filter(team=team).select_related("user", "team").order_by("role", "pk")


def find_member(team: Team, pk: int) -> Membership:
    """Somebody of the team; whoever is in another is answered like an unknown one."""
    member = members_of(team).filter(pk=pk).first()
    if member is None:
        raise not_found()
    return member


def waiting_invitations() -> QuerySet[Invitation]:
    """Invitations that can be accepted: not used, not ended, and of somebody who may still invite."""
    leads = Q(created_by__membership__team=F("team"), created_by__membership__role=Membership.Role.LEAD)
    waiting = Invitation.objects.filter(accepted_at=None, expires_at__gt=timezone.now())
    may_invite = Q(created_by__is_active=True) & (leads | Q(created_by__is_staff=True))
    return waiting.filter(may_invite).select_related("team", "created_by")


def invitations_to(team: Team) -> QuerySet[Invitation]:
    """Those that wait, newest first."""
    return waiting_invitations().filter(team=team).order_by("-pk")


def find_invitation_to(team: Team, pk: int) -> Invitation:
    """One that waits; every other id is answered like an unknown one."""
    invitation = invitations_to(team).filter(pk=pk).first()
    if invitation is None:
        raise not_found()
    return invitation


def admin_emails(most: int = 3) -> list[str]:
    """Whom to ask: admins who can log in, longest first."""
    admins = User.objects.filter(is_staff=True, is_active=True).order_by("pk")
    return list(admins.values_list("email", flat=True)[:most])
