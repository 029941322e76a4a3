"""Invitations: a link that lets one person join a team, without a mail server (SPEC 2.1)."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.services.users import checked_email, create_user
from portal.wire.errors import Forbidden

GOOD_FOR = timedelta(days=14)


@transaction.atomic
def create_invitation(
    who: Principal, team: Team, *, email: str = "", role: str = Membership.Role.MEMBER
) -> tuple[Invitation, str]:
    """An invitation and the token of its link, which is shown now and never again.

    With an email only that address can be used. Raises Forbidden for whoever neither leads the
    team nor is an admin, and Invalid.
    """
    if not may_invite(who, team):
        raise Forbidden("Only a lead of the team or an admin can invite to it.")
    if role not in Membership.Role.values:
        raise Invalid(f"{role!r} is no role: choose from {', '.join(Membership.Role.values)}", "role")
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        email=_free_email(email) if email.strip() else "",
        team=team,
        role=role,
        digest=_digest(token),
        created_by_id=who.user_id,
        expires_at=timezone.now() + GOOD_FOR,
    )
    audit.record(who, "invitation.created", f"invitation:{invitation.pk}", team=team.name, role=role)
    return invitation, token


def may_invite(who: Principal, team: Team) -> bool:
    leads = Membership.objects.filter(user_id=who.user_id, team=team, role=Membership.Role.LEAD)
    return who.is_staff or leads.exists()


def find_invitation(token: str) -> Invitation | None:
    """An invitation that can still be accepted."""
    waiting = Invitation.objects.select_related("team").filter(digest=_digest(token), accepted_at=None)
    return waiting.filter(expires_at__gt=timezone.now(), created_by__is_active=True).first()


@transaction.atomic
def accept_invitation(token: str, *, email: str, name: str, password: str) -> User:
    """Make the user that the invitation was for; once. Raises Invalid."""
    invitation = find_invitation(token)
    if invitation is None or not _claim(invitation):
        raise Invalid("this invitation was used before or has ended: ask for a new one")
    user = create_user(
        invitation.email or email,
        password=password,
        name=name,
        team=invitation.team,
        role=invitation.role,
    )
    Invitation.objects.filter(pk=invitation.pk).update(accepted_by=user)
    audit.record(None, "invitation.accepted", f"invitation:{invitation.pk}", user=user.email)
    return user


def _claim(invitation: Invitation) -> bool:
    """Only one of those who hold the link comes first."""
    waiting = Invitation.objects.filter(pk=invitation.pk, accepted_at=None)
    return bool(waiting.update(accepted_at=timezone.now()))


def _free_email(email: str) -> str:
    email = checked_email(email)
    if User.objects.filter(email=email).exists():
        raise Invalid(f"{email} is a user already", "email")
    return email


def _digest(token: str) -> str:
    return salted_hmac("portal.invitations", token, algorithm="sha256").hexdigest()
