from __future__ import annotations

from decimal import Decimal

import pytest
from django.core.management import call_command

from portal.models.audit import AuditEntry
from portal.models.teams import Membership, Team
from portal.models.users import User
from portal.services.errors import Invalid
from portal.services.users import (
    account_of,
    create_user,
    ensure_first_admin,
    find_or_make_team,
    find_user,
    set_active,
)
from tests.portal.people import a_team, all_at_once, an_admin, somebody

pytestmark = pytest.mark.django_db


def test_it_makes_a_member_with_a_team_and_the_plans_allowance() -> None:
    user = create_user("Ada@Example.org ", password="a fine password", name="Ada")

    account = account_of(user.pk)

    assert (account.email, account.name, account.team) == ("ada@example.org", "Ada", "Team")
    assert account.balance.available == 100
    assert (user.is_staff, user.check_password("a fine password")) == (False, True)


def test_it_puts_people_into_the_oldest_team_unless_told() -> None:
    first, second = a_team(), a_team()

    assert Membership.objects.get(user=somebody()).team == first
    assert Membership.objects.get(user=somebody(team=second)).team == second


def test_it_makes_users_who_cannot_log_in_without_a_password() -> None:
    assert not somebody().has_usable_password()


@pytest.mark.parametrize("email", ["", "nobody", "a b@example.org", "a@", "a\n@example.org"])
def test_it_refuses_what_is_no_email_address(email: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_user(email)

    assert refused.value.field == "email"


def test_it_refuses_an_email_that_is_taken_in_any_case() -> None:
    create_user("ada@example.org")

    with pytest.raises(Invalid, match="already"):
        create_user("ADA@example.org")

    assert User.objects.count() == 1


@pytest.mark.parametrize("password", ["", "short", "password", "ada.lovelace"])
def test_it_refuses_weak_passwords(password: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_user("ada.lovelace@example.org", password=password)

    assert refused.value.field == "password"
    assert not User.objects.exists()


def test_it_makes_the_first_admin_once_with_a_thousand_credits() -> None:
    made = ensure_first_admin("boss@example.org")

    assert made is not None
    user, password = made
    assert (user.is_staff, user.is_superuser, user.check_password(password)) == (True, True, True)
    assert account_of(user.pk).balance.available == 1000
    assert Membership.objects.get(user=user).role == "lead"
    assert ensure_first_admin("other@example.org") is None


def test_it_gives_those_whom_django_s_own_command_makes_what_every_new_user_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a fine password")
    for email in ("root@example.org", "second@example.org"):
        call_command("createsuperuser", email=email, interactive=False, verbosity=0)

    first, second = User.objects.order_by("pk")
    assert [account_of(user.pk).team for user in (first, second)] == ["Team", "Team"]
    assert [account_of(user.pk).balance.available for user in (first, second)] == [1000, 100]
    assert [user.membership.role for user in (first, second)] == ["lead", "member"]
    assert AuditEntry.objects.filter(action="user.created").count() == 2


@pytest.mark.django_db(transaction=True)
def test_it_makes_one_first_admin_when_many_start_at_once() -> None:
    outcomes = all_at_once(4, lambda place: ensure_first_admin())

    assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1
    assert outcomes.count(None) == 3
    assert User.objects.count() == 1


def test_it_disables_a_user_and_lets_them_back_in() -> None:
    user, actor = somebody(), an_admin()

    assert set_active(user, False, actor=actor)
    assert not set_active(user, False, actor=actor)
    assert set_active(user, True, actor=actor)

    entries = AuditEntry.objects.filter(target=f"user:{user.pk}", actor_id=actor.user_id)
    assert [entry.action for entry in entries] == ["user.enabled", "user.disabled"]


def test_it_finds_or_makes_a_team_by_name() -> None:
    team = find_or_make_team("  Red   team ")

    assert team.name == "Red team"
    assert find_or_make_team("Red team") == team
    for name in ("", " ", "x" * 121):
        with pytest.raises(Invalid):
            find_or_make_team(name)
    assert Team.objects.count() == 1


def test_it_finds_people_by_email() -> None:
    user = somebody()

    assert find_user(f" {user.email.upper()}") == user
    with pytest.raises(Invalid, match="no user has"):
        find_user("nobody@example.org")


def test_it_opens_with_exact_credits_down_to_the_last_digit() -> None:
    user = create_user("ada@example.org", credits=Decimal("0.0001"))

    assert account_of(user.pk).balance.available == Decimal("0.0001")
