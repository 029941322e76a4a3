"""Giving a run to one's team to read, and taking it back (SPEC 2.1). It stays its user's all the same.

Who may read it is asked anew at every look (`research.queries`): both must be in the team then. So
nothing has to be told to anybody when somebody goes. What they had given is taken back as well, lest it
come back with them.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from portal.models.teams import Membership, Team
from portal.services import audit
from portal.services.errors import Invalid
from portal.services.principal import Principal
from research.models.runs import Run
from research.queries import find_run

TAKEN_BACK = {"shared_with": None, "shared_at": None}


@transaction.atomic
def share_run(who: Principal, run_id: UUID | None) -> Team:
    """Let everybody in the caller's team read the caller's run; doing it twice is doing it once.

    Raises NotFound, and Invalid for somebody in no team.
    """
    run = find_run(who, run_id)
    # Whoever would leave meanwhile waits, and takes this one back, too.
    place = Membership.objects.select_for_update(of=("self",), no_key=True).select_related("team")
    member = place.filter(user_id=who.user_id).first()
    if member is None:
        raise Invalid("you are in no team that you could share this with")
    new = Run.objects.filter(pk=run.pk, hidden_at=None).exclude(shared_with=member.team)
    if new.update(shared_with=member.team, shared_at=timezone.now()):
        audit.record(who, "run.shared", run.public_id, team=member.team.name)
    return member.team


@transaction.atomic
def take_back_run(who: Principal, run_id: UUID | None) -> bool:
    """Nobody but its user reads the run from now on. False when nobody else did. Raises NotFound."""
    run = find_run(who, run_id)
    if not Run.objects.filter(pk=run.pk, shared_with__isnull=False).update(**TAKEN_BACK):
        return False
    audit.record(who, "run.taken_back", run.public_id)
    return True


def take_back_of_who_went(sender: object, instance: Membership, **signal: object) -> None:
    """After a membership has changed or gone: what its user had given to another team than theirs now."""
    given = Run.objects.filter(user_id=instance.user_id, shared_with__isnull=False)
    own = Membership.objects.filter(user_id=instance.user_id).values_list("team", flat=True)
    given.exclude(shared_with__in=list(own)).update(**TAKEN_BACK)
