"""Teams: who leads, who belongs, who goes. The leads of a team and admins decide (SPEC 2.1).

Whoever changes a team holds its row, so that of two leads who put each other out one comes first,
and the other is no lead any more: a team that had a lead keeps one, as long as it has anybody.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Count, Q

from portal.models.teams import Membership, Team
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.principal import Principal
from portal.wire.errors import Forbidden


def may_manage(who: Principal, team: Team) -> bool:
    leads = Membership.objects.filter(user_id=who.user_id, team=team, role=Membership.Role.LEAD)
    return who.is_staff or leads.exists()


def hold(who: Principal, team: Team) -> None:
    """Lock the team for the rest of the transaction. Raises Forbidden for whoever may not change it."""
    _lock(team)
    if not may_manage(who, team):
        raise Forbidden("Only a lead of the team or an admin can do this.")


def _lock(team: Team) -> None:
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)


def is_needed(user_id: int, team: Team) -> bool:
    """Whether without this lead there would be people in the team, and nobody to lead them."""
    lead, other = Q(role=Membership.Role.LEAD), ~Q(user_id=user_id)
    people = Membership.objects.filter(team=team).aggregate(
        leads=Count("pk", filter=lead & ~other),
        others=Count("pk", filter=other),
        others_lead=Count("pk", filter=lead & other & Q(user__is_active=True)),
    )
    return bool(people["leads"] and people["others"] and not people["others_lead"])


def checked_role(role: str) -> str:
    if role not in Membership.Role.values:
        raise Invalid(f"{role!r} is no role: choose from {', '.join(Membership.Role.values)}", "role")
    return role


@transaction.atomic
def set_role(who: Principal, member: Membership, role: str) -> bool:
    """False when nothing was to do. Raises Forbidden, and Invalid for one's own role."""
    hold(who, member.team)
    _not_oneself(who, member)
    changed = Membership.objects.filter(pk=member.pk, team=member.team).exclude(role=checked_role(role))
    if not changed.update(role=role):
        return False
    audit.record(who, "member.role_changed", f"user:{member.user_id}", team=member.team.name, role=role)
    return True


@transaction.atomic
def remove_member(who: Principal, member: Membership) -> bool:
    """Take somebody out of the team and of its pool; runs, keys and credits stay theirs.

    What their work holds of the pool returns to it as that work ends. False when they had gone
    before. Raises Forbidden, and Invalid for oneself.
    """
    hold(who, member.team)
    _not_oneself(who, member)
    gone, _ = Membership.objects.filter(pk=member.pk, team=member.team).delete()
    if not gone:
        return False
    audit.record(who, "member.removed", f"user:{member.user_id}", team=member.team.name)
    return True


@transaction.atomic
def leave_team(who: Principal, team: Team) -> bool:
    """Go by oneself, with what whoever is removed keeps and loses. False when one is not in it.

    Raises Invalid for the only lead of others.
    """
    _lock(team)
    if is_needed(who.user_id, team):
        raise Invalid("you are the only lead: make somebody else a lead before you go")
    gone, _ = Membership.objects.filter(user_id=who.user_id, team=team).delete()
    if not gone:
        return False
    audit.record(who, "member.left", f"user:{who.user_id}", team=team.name)
    return True


def _not_oneself(who: Principal, member: Membership) -> None:
    if member.user_id == who.user_id:
        raise Invalid("you cannot do this to yourself: ask another lead or an admin")
