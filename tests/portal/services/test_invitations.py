from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.models.audit import AuditEntry
from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.queries import invitations_to
from portal.services.errors import Invalid
from portal.services.invitations import (
    MOST_WAITING,
    accept_invitation,
    create_invitation,
    find_invitation,
    join_team,
    revoke_invitation,
)
from portal.services.ledger import balance_of
from portal.services.principal import principal_of
from portal.services.teams import set_role
from portal.services.users import set_active
from portal.wire.errors import Forbidden
from tests.portal.people import a_team, all_at_once, an_admin, leads, somebody, the_clock_at

pytestmark = pytest.mark.django_db


def accept(token: str, email: str = "new@example.org") -> User:
    return accept_invitation(token, email=email, name="New", password="a fine password")


def test_it_lets_one_person_join_the_team_with_an_account() -> None:
    team = a_team()
    _, token = create_invitation(an_admin(), team, role="lead")

    user = accept(token)

    membership = Membership.objects.get(user=user)
    assert (membership.team, membership.role) == (team, "lead")
    assert user.check_password("a fine password")
    assert balance_of(user.pk).available == 100
    assert Invitation.objects.get().accepted_by == user


def test_it_works_once() -> None:
    _, token = create_invitation(an_admin(), a_team())
    accept(token)

    with pytest.raises(Invalid, match="used before"):
        accept(token, "other@example.org")


@pytest.mark.django_db(transaction=True)
def test_it_works_once_when_many_hold_the_link() -> None:
    _, token = create_invitation(an_admin(), a_team())

    outcomes = all_at_once(4, lambda place: accept(token, f"new{place}@example.org"))

    assert sum(isinstance(outcome, User) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Invalid) for outcome in outcomes) == 3


def test_it_ends_after_two_weeks() -> None:
    _, token = create_invitation(an_admin(), a_team())

    with the_clock_at(timezone.now() + timedelta(days=13, hours=23)):
        assert find_invitation(token) is not None
    with the_clock_at(timezone.now() + timedelta(days=14)):
        assert find_invitation(token) is None


def test_it_ends_with_the_person_who_made_it() -> None:
    lead = somebody()
    team = Membership.objects.get(user=lead).team
    _, token = create_invitation(leads(lead), team)

    set_active(lead, False, actor=None)

    assert find_invitation(token) is None


def test_it_stays_good_when_the_form_was_filled_in_wrongly() -> None:
    taken = somebody()
    _, token = create_invitation(an_admin(), a_team())

    for email in (taken.email, "nothing"):
        with pytest.raises(Invalid):
            accept(token, email)

    assert accept(token).email == "new@example.org"


def test_it_is_for_the_invited_address_only() -> None:
    _, token = create_invitation(an_admin(), a_team(), email="Ada@example.org")

    assert accept(token, "other@example.org").email == "ada@example.org"


def test_it_invites_nobody_who_is_here_already() -> None:
    with pytest.raises(Invalid, match="already"):
        create_invitation(an_admin(), a_team(), email=somebody().email)


def test_it_is_for_leads_of_the_team_and_admins() -> None:
    team, member = a_team(), somebody()
    with pytest.raises(Forbidden):
        create_invitation(principal_of(member), Membership.objects.get(user=member).team)

    with pytest.raises(Forbidden):
        create_invitation(leads(somebody(team=a_team())), team)

    create_invitation(leads(somebody(team=team)), team)


def test_it_refuses_unknown_roles_and_tokens() -> None:
    with pytest.raises(Invalid):
        create_invitation(an_admin(), a_team(), role="king")
    assert find_invitation("x" * 43) is None


def test_it_keeps_no_token() -> None:
    invitation, token = create_invitation(an_admin(), a_team())

    assert token not in str(Invitation.objects.filter(pk=invitation.pk).values().get())


def test_it_ends_when_its_maker_may_invite_no_longer() -> None:
    lead = somebody(team=a_team())
    membership = Membership.objects.get(user=lead)
    _, token = create_invitation(leads(lead), membership.team)

    set_role(an_admin(), membership, "member")

    assert find_invitation(token) is None
    with pytest.raises(Invalid, match="used before or has ended"):
        accept(token)


def test_it_ends_when_it_is_taken_back() -> None:
    lead = leads(somebody(team=a_team()))
    invitation, token = create_invitation(lead, Membership.objects.get(user_id=lead.user_id).team)

    with pytest.raises(Forbidden):
        revoke_invitation(leads(somebody(team=a_team())), invitation)
    assert revoke_invitation(lead, invitation)

    assert find_invitation(token) is None
    assert not revoke_invitation(lead, invitation)
    assert AuditEntry.objects.latest("pk").action == "invitation.revoked"


def test_it_cannot_be_taken_back_after_it_was_used() -> None:
    admin = an_admin()
    invitation, token = create_invitation(admin, a_team())
    accept(token)

    assert not revoke_invitation(admin, invitation)
    assert Invitation.objects.exists()


def test_it_waits_in_no_larger_number_than_a_page_shows() -> None:
    admin, team = an_admin(), a_team()
    made = [create_invitation(admin, team)[0] for _ in range(MOST_WAITING)]

    with pytest.raises(Invalid, match="take one back first"):
        create_invitation(admin, team)
    assert [row.pk for row in invitations_to(team)] == [row.pk for row in reversed(made)]

    revoke_invitation(admin, made[0])
    create_invitation(admin, team)


def test_it_takes_in_somebody_who_is_here_and_in_no_team() -> None:
    team, loner = a_team(pool=50), out_of_every_team()
    _, token = create_invitation(an_admin(), team, email=loner.email, role="lead")

    assert join_team(principal_of(loner), token) == team

    membership = Membership.objects.get(user=loner)
    assert (membership.team, membership.role) == (team, "lead")
    assert balance_of(loner.pk).pool == 50
    assert Invitation.objects.get().accepted_by == loner


def test_it_takes_nobody_out_of_their_team() -> None:
    _, token = create_invitation(an_admin(), a_team())

    with pytest.raises(Invalid, match="one team only"):
        join_team(principal_of(somebody()), token)

    assert find_invitation(token) is not None


def test_it_takes_in_only_whom_it_was_bound_to() -> None:
    _, token = create_invitation(an_admin(), a_team(), email="ada@example.org")

    with pytest.raises(Invalid, match=r"is for ada@example\.org"):
        join_team(principal_of(out_of_every_team()), token)


@pytest.mark.django_db(transaction=True)
def test_it_takes_somebody_into_one_team_when_they_follow_two_links_at_once() -> None:
    admin, loner = an_admin(), out_of_every_team()
    tokens = [create_invitation(admin, a_team())[1] for _ in range(2)]

    outcomes = all_at_once(2, lambda place: join_team(principal_of(loner), tokens[place]))

    assert {type(outcome) for outcome in outcomes} == {Team, Invalid}
    assert Membership.objects.filter(user=loner).count() == 1


def out_of_every_team() -> User:
    loner = somebody()
    Membership.objects.filter(user=loner).delete()
    return loner
