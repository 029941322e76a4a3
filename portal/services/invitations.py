"""Invitations: a link that lets one person join a team, without a mail server (SPEC 2.1)."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.queries import invitations_to, waiting_invitations
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.services.teams import checked_role, hold
from portal.services.users import checked_email, create_user

GOOD_FOR = timedelta(days=14)
MOST_WAITING = 50
"""Of one team: all that wait fit on its page."""
GONE = "this invitation was used before or has ended: ask for a new one"


@transaction.atomic
def create_invitation(
    who: Principal, team: Team, *, email: str = "", role: str = Membership.Role.MEMBER
) -> tuple[Invitation, str]:
    """An invitation and the token of its link, which is shown now and never again.

    With an email only that address can be used. Raises Forbidden for whoever neither leads the
    team nor is an admin, and Invalid.
    """
    hold(who, team)
    check_room(team)
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        email=_free_email(email) if email.strip() else "",
        team=team,
        role=checked_role(role),
        digest=_digest(token),
        created_by_id=who.user_id,
        expires_at=timezone.now() + GOOD_FOR,
    )
    audit.record(who, "invitation.created", f"invitation:{invitation.pk}", team=team.name, role=role)
    return invitation, token


def check_room(team: Team) -> None:
    """Raises Invalid when as many wait as may."""
    if invitations_to(team).count() >= MOST_WAITING:
        raise Invalid(f"{MOST_WAITING} invitations are waiting: take one back first")


@transaction.atomic
def revoke_invitation(who: Principal, invitation: Invitation) -> bool:
    """Its link opens nothing from now on. False when it was used or taken back before. Raises Forbidden."""
    hold(who, invitation.team)
    gone, _ = Invitation.objects.filter(pk=invitation.pk, accepted_at=None).delete()
    if not gone:
        return False
    audit.record(who, "invitation.revoked", f"invitation:{invitation.pk}", team=invitation.team.name)
    return True


def find_invitation(token: str) -> Invitation | None:
    """An invitation that can still be accepted."""
    return waiting_invitations().filter(digest=_digest(token)).first()


@transaction.atomic
def accept_invitation(token: str, *, email: str, name: str, password: str) -> User:
    """Make the user that the invitation was for; once. Raises Invalid."""
    invitation = find_invitation(token)
    if invitation is None or not _claim(invitation):
        raise Invalid(GONE)
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


@transaction.atomic
def join_team(who: Principal, token: str) -> Team:
    """Take somebody who is here already, and in no team, into the invitation's; once. Raises Invalid."""
    user = User.objects.select_for_update(no_key=True).get(pk=who.user_id)
    invitation = find_invitation(token)
    if invitation is None or not _claim(invitation):
        raise Invalid(GONE)
    if Membership.objects.filter(user=user).exists():
        raise Invalid("you are in a team already, and one belongs to one team only")
    if invitation.email not in ("", user.email):
        raise Invalid(f"this invitation is for {invitation.email}")
    Membership.objects.create(user=user, team=invitation.team, role=invitation.role)
    Invitation.objects.filter(pk=invitation.pk).update(accepted_by=user)
    audit.record(who, "invitation.accepted", f"invitation:{invitation.pk}", user=user.email)
    return invitation.team


def _claim(invitation: Invitation) -> bool:
    """Only one of those who hold the link comes first."""
    waiting = Invitation.objects.filter(pk=invitation.pk, accepted_at=None)
    return bool(waiting.update(accepted_at=timezone.now()))


def _free_email(email: str) -> str:
    email = checked_email(email)
    if Membership.objects.filter(user__email=email).exists():
        raise Invalid(f"{email} is in a team already", "email")
    return email


def _digest(token: str) -> str:
    return salted_hmac("portal.invitations", token, algorithm="sha256").hexdigest()
