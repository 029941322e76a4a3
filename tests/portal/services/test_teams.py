from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import OperationalError, connection, transaction

from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount
from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.queries import find_member, members_of
from portal.services import ledger
from portal.services.errors import Invalid
from portal.services.ledger import balance_of
from portal.services.principal import Principal, principal_of
from portal.services.teams import leave_team, remove_member, set_role
from portal.wire.errors import Forbidden, NotFound
from tests.portal.people import a_team, all_at_once, amounts, an_admin, credits_of, leads, somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return a_team(pool=50)


@pytest.fixture
def lead(team: Team) -> Principal:
    return leads(somebody(team=team))


def member_of(team: Team) -> Membership:
    return Membership.objects.get(user=somebody(team=team))


def last_audit() -> tuple[str, str, int | None]:
    entry = AuditEntry.objects.latest("pk")
    return entry.action, entry.target, entry.actor_id


def test_it_makes_a_member_lead_and_a_lead_member(team: Team, lead: Principal) -> None:
    member = member_of(team)

    assert set_role(lead, member, "lead")
    assert Membership.objects.get(pk=member.pk).role == "lead"
    assert last_audit() == ("member.role_changed", f"user:{member.user_id}", lead.user_id)
    assert set_role(lead, member, "member")
    assert not set_role(lead, member, "member")


def test_it_removes_a_member_from_team_and_pool_and_leaves_them_the_rest(team: Team, lead: Principal) -> None:
    member = member_of(team)

    assert remove_member(lead, member)

    assert not Membership.objects.filter(user=member.user).exists()
    assert amounts(balance_of(member.user_id)) == ("0", "10", "0", "0")
    assert User.objects.get(pk=member.user_id).is_active
    assert last_audit() == ("member.removed", f"user:{member.user_id}", lead.user_id)
    assert not remove_member(lead, member)


def test_it_gives_back_to_the_pool_what_the_work_of_one_who_went_had_held(
    team: Team, lead: Principal
) -> None:
    member = member_of(team)
    ledger.reserve(member.user_id, "run:1", Decimal(30))
    remove_member(lead, member)

    ledger.close("run:1", ledger.ZERO)

    assert CreditAccount.objects.get(team=team).own == 50
    assert credits_of(member.user).own == 10


@pytest.mark.parametrize("act", [remove_member, lambda who, member: set_role(who, member, "lead")])
def test_it_is_for_leads_of_the_team_and_admins(team: Team, act: object) -> None:
    member = member_of(team)
    for who in (principal_of(somebody(team=team)), leads(somebody(team=a_team())), principal_of(member.user)):
        with pytest.raises(Forbidden):
            act(who, member)  # type: ignore[operator]  # one of the two above

    assert act(an_admin(), member)  # type: ignore[operator]


def test_it_lets_nobody_change_their_own_place(team: Team, lead: Principal) -> None:
    own = Membership.objects.get(user_id=lead.user_id)

    with pytest.raises(Invalid, match="another lead"):
        set_role(lead, own, "member")
    with pytest.raises(Invalid, match="another lead"):
        remove_member(lead, own)


def test_it_knows_two_roles(team: Team, lead: Principal) -> None:
    with pytest.raises(Invalid, match="'king' is no role"):
        set_role(lead, member_of(team), "king")


@pytest.mark.django_db(transaction=True)
def test_it_leaves_a_lead_when_all_leads_put_each_other_out_at_once() -> None:
    team = a_team()
    all_leads = [leads(somebody(team=team)) for _ in range(4)]
    rows = [Membership.objects.get(user_id=lead.user_id) for lead in all_leads]

    outcomes = all_at_once(4, lambda place: remove_member(all_leads[place], rows[place - 1]))

    left = Membership.objects.filter(team=team).count()
    assert left == 4 - outcomes.count(True) >= 1
    assert {type(outcome) for outcome in outcomes} <= {bool, Forbidden}


def test_it_lets_anybody_leave_and_keeps_what_is_theirs(team: Team, lead: Principal) -> None:
    user = member_of(team).user
    ledger.reserve(user.pk, "run:1", Decimal(30))

    assert leave_team(principal_of(user), team)
    ledger.close("run:1", ledger.ZERO)

    assert not Membership.objects.filter(user=user).exists()
    assert amounts(balance_of(user.pk)) == ("0", "10", "0", "0")
    assert CreditAccount.objects.get(team=team).own == 50
    assert last_audit() == ("member.left", f"user:{user.pk}", user.pk)
    assert not leave_team(principal_of(user), team)
    assert not leave_team(principal_of(user), a_team())


def test_it_keeps_the_only_lead_as_long_as_there_are_others(team: Team, lead: Principal) -> None:
    other = member_of(team)

    with pytest.raises(Invalid, match="make somebody else a lead"):
        leave_team(lead, team)

    set_role(lead, other, "lead")
    User.objects.filter(pk=other.user_id).update(is_active=False)
    with pytest.raises(Invalid, match="make somebody else a lead"):
        leave_team(lead, team)

    User.objects.filter(pk=other.user_id).update(is_active=True)
    assert leave_team(lead, team)


def test_it_lets_the_last_one_go(team: Team, lead: Principal) -> None:
    assert leave_team(lead, team)
    assert not Membership.objects.filter(team=team).exists()


@pytest.mark.django_db(transaction=True)
def test_it_leaves_a_lead_when_all_leads_leave_at_once() -> None:
    team = a_team()
    all_leads = [leads(somebody(team=team)) for _ in range(3)]
    member_of(team)

    outcomes = all_at_once(3, lambda place: leave_team(all_leads[place], team))

    assert [type(outcome) for outcome in outcomes if outcome is not True] == [Invalid]
    assert Membership.objects.filter(team=team, role="lead").count() == 1


@pytest.mark.cluster
@pytest.mark.django_db(transaction=True)
def test_it_waits_for_who_is_changing_the_team_and_then_looks_again() -> None:
    team = a_team()
    one, other = (leads(somebody(team=team)) for _ in range(2))
    rows = {row.user_id: row for row in Membership.objects.filter(team=team)}

    def in_haste(_: int) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '300ms'")
            return remove_member(other, rows[one.user_id])

    with transaction.atomic():
        remove_member(one, rows[other.user_id])
        (outcome,) = all_at_once(1, in_haste)

    assert isinstance(outcome, OperationalError), "it had to wait for the team"
    with pytest.raises(Forbidden):
        remove_member(other, rows[one.user_id])


def test_it_lists_leads_first_and_finds_nobody_of_another_team(team: Team) -> None:
    first, second = member_of(team), member_of(team)
    leads(second.user)
    stranger = member_of(a_team())

    assert [row.pk for row in members_of(team)] == [second.pk, first.pk]
    assert find_member(team, first.pk) == first
    for unknown in (stranger.pk, 10**30):
        with pytest.raises(NotFound):
            find_member(team, unknown)
