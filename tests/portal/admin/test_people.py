from __future__ import annotations

import re
from decimal import Decimal
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client

from portal.models.audit import AuditEntry
from portal.models.ledger import CreditAccount, Plan
from portal.models.teams import Invitation, Membership, Team
from portal.models.users import User
from portal.services.invitations import MOST_WAITING, create_invitation, find_invitation
from portal.services.keys import authenticate_key, create_key
from portal.services.ledger import balance_of
from portal.services.principal import principal_of
from portal.wire.errors import Forbidden
from tests.portal.admin.site import Site, told
from tests.portal.people import a_team, somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return Site()


def shown(page: str) -> list[str]:
    """What the page shows only once."""
    return re.findall(r'<code translate="no">([^<]+)</code>', page)


def audited(site: Site, action: str) -> bool:
    return AuditEntry.objects.filter(action=action, actor=site.admin).exists()


def test_it_makes_a_user_with_a_password_that_is_shown_once(site: Site) -> None:
    team = a_team()

    answer = site.add(User, email="Ada@example.org", name="Ada", team=team.pk, credits="2.5")

    user = User.objects.get(email="ada@example.org")
    [password] = shown(answer.text)
    assert user.check_password(password)
    assert Membership.objects.get(user=user).team == team
    assert balance_of(user.pk).available == Decimal("2.5")
    assert audited(site, "user.created")
    assert password not in str(Session.objects.values_list("session_data")) + str(answer.cookies)


def test_it_makes_an_admin(site: Site) -> None:
    site.add(User, email="ada@example.org", is_staff="on")

    user = User.objects.get(email="ada@example.org")
    assert user.is_staff
    assert user.is_superuser
    assert balance_of(user.pk).available == 100


@pytest.mark.parametrize("email", ["", "nobody"])
def test_it_makes_no_user_without_an_email_address(site: Site, email: str) -> None:
    assert site.add(User, email=email).context["errors"]


def test_it_makes_no_second_user_of_one_address(site: Site) -> None:
    assert site.add(User, email=somebody().email.upper()).context["errors"]


def test_it_sets_limits_of_a_user(site: Site) -> None:
    user = somebody()

    site.change(user, email=user.email, name="", requests_per_minute="30")

    user.refresh_from_db()
    assert user.requests_per_minute == 30
    assert audited(site, "user.changed")


def test_it_grants_credits_after_asking_how_many(site: Site) -> None:
    first, second = somebody(1), somebody(1)
    asked = site.act("grant", first, second)
    assert 'name="amount"' in asked.text

    once = asked.context["form"].initial["once"]
    answer = site.act("grant", first, second, confirmed="yes", amount="2.5", reason="a prize", once=once)

    assert told(answer) == ["2 users were given 2.5 credits."]
    assert balance_of(first.pk).available == balance_of(second.pk).available == Decimal("3.5")
    assert audited(site, "credits.granted")


def test_it_grants_once_when_the_button_is_pressed_twice(site: Site) -> None:
    user, once = somebody(1), uuid4()
    for _ in range(2):
        answer = site.act("grant", user, confirmed="yes", amount="2", reason="a prize", once=once)

    assert told(answer) == ["Nothing was changed."]
    assert balance_of(user.pk).available == 3


@pytest.mark.parametrize("amount", ["", "-1", "0.00001", "many", "0", "1e12"])
def test_it_grants_no_odd_amounts(site: Site, amount: str) -> None:
    user = somebody(1)

    site.act("grant", user, confirmed="yes", amount=amount, reason="a prize", once=uuid4())

    assert balance_of(user.pk).available == 1


def test_it_grants_to_the_pool_of_a_team(site: Site) -> None:
    team = a_team()
    user = somebody(0, team=team)

    site.act("grant", team, confirmed="yes", amount="7", reason="a prize", once=uuid4())

    assert balance_of(user.pk).pool == 7


def test_it_disables_and_enables(site: Site) -> None:
    user = somebody()
    _, text = create_key(user, name="test")

    assert told(site.act("disable", user)) == ["1 disabled."]
    with pytest.raises(Forbidden):
        authenticate_key(text, None)
    assert told(site.act("disable", user)) == ["Nothing was changed."]
    assert told(site.act("enable", user)) == ["1 enabled."]
    assert authenticate_key(text, None) is not None


def test_it_ends_the_sessions_of_a_disabled_admin(site: Site) -> None:
    other = Site()

    site.act("disable", other.admin)

    assert other.look(User).status_code == 302


@pytest.mark.parametrize("action", ["disable", "make_member"])
def test_it_lets_no_admin_lock_themselves_out(site: Site, action: str) -> None:
    answer = site.act(action, site.admin)

    assert told(answer)[0].endswith("you cannot do this to your own account")
    assert User.objects.filter(pk=site.admin.pk, is_active=True, is_staff=True).exists()


def test_it_makes_admins_and_members(site: Site) -> None:
    user = somebody()

    site.act("make_admin", user)
    assert User.objects.filter(pk=user.pk, is_staff=True, is_superuser=True).exists()

    site.act("make_member", user)
    assert User.objects.filter(pk=user.pk, is_staff=False, is_superuser=False).exists()


def test_it_sets_a_new_password_and_ends_every_session(site: Site) -> None:
    user = somebody()
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    answer = site.act("set_new_password", user)

    user.refresh_from_db()
    assert user.check_password(shown(answer.text)[0])
    assert client.get("/keys").status_code == 302
    assert audited(site, "user.login_reset")


@pytest.mark.parametrize("by", ["action", "form"])
def test_it_invites_with_a_link_that_is_shown_once(site: Site, by: str) -> None:
    team = a_team()

    answer = site.act("invite", team) if by == "action" else site.add(Invitation, team=team.pk, role="lead")

    [link] = shown(answer.text)
    start = f"{settings.PUBLIC_URL}/invite/"
    assert link.startswith(start)
    found = find_invitation(link.removeprefix(start))
    assert found is not None
    assert found.team == team
    assert site.client.get(link.removeprefix(settings.PUBLIC_URL)).status_code == 200
    assert audited(site, "invitation.created")


@pytest.mark.parametrize("by", ["action", "form"])
def test_it_says_when_too_many_invitations_wait(site: Site, by: str) -> None:
    team = a_team()
    for _ in range(MOST_WAITING):
        create_invitation(principal_of(site.admin), team)

    answer = site.act("invite", team) if by == "action" else site.add(Invitation, team=team.pk, role="lead")

    assert "50 invitations are waiting: take one back first" in answer.text
    assert Invitation.objects.count() == MOST_WAITING


def test_it_invites_nobody_who_is_here_already(site: Site) -> None:
    answer = site.add(Invitation, team=a_team().pk, role="member", email=somebody().email)

    assert "They are in a team already." in answer.text


def test_it_takes_an_invitation_back(site: Site) -> None:
    link = shown(site.act("invite", a_team()).text)[0]

    site.client.post(site.address(Invitation, "delete", Invitation.objects.get().pk), {"post": "yes"})

    assert find_invitation(link.rpartition("/")[2]) is None


def test_it_deletes_only_teams_that_hold_nobody_and_nothing(site: Site) -> None:
    empty, rich = a_team(), a_team(5)
    full = Membership.objects.get(user=site.admin).team

    for team, status in ((empty, 200), (rich, 403), (full, 403)):
        assert site.look(Team, "delete", team.pk).status_code == status


def test_it_moves_people_between_teams(site: Site) -> None:
    membership, team = Membership.objects.get(user=somebody()), a_team()

    site.change(membership, team=team.pk, role="lead")

    membership.refresh_from_db()
    assert (membership.team, membership.role) == (team, "lead")
    assert audited(site, "membership.changed")


def test_it_gives_a_user_without_a_team_one(site: Site) -> None:
    user, team = User.objects.create_user("root@example.org", "a fine password"), a_team()

    site.add(Membership, user=user.email, team=team.pk, role="member")

    assert Membership.objects.get(user=user).team == team


def test_it_puts_an_account_on_a_plan_and_touches_no_balance(site: Site) -> None:
    plan = Plan.objects.create(name="Large", allowance=Decimal(500))
    user = somebody(3)
    account = CreditAccount.objects.get(user=user)

    site.change(account, plan=plan.pk, own="1000")

    balance = balance_of(user.pk)
    assert [balance.allowance, balance.own] == [500, 3]
    assert audited(site, "account.plan_changed")


def test_it_makes_another_plan_the_default(site: Site) -> None:
    site.add(Plan, name="Large", allowance="500.5")
    plan = Plan.objects.get(name="Large")

    site.act("make_default", plan)

    assert balance_of(somebody(None).pk).available == Decimal("500.5")
    assert Plan.objects.filter(is_default=True).count() == 1
    assert audited(site, "plan.made_default")


def test_it_takes_no_negative_allowance(site: Site) -> None:
    assert site.add(Plan, name="Odd", allowance="-1").context["errors"]
