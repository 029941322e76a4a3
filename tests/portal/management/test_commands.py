from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from portal.models.keys import ApiKey
from portal.models.ledger import CreditAccount
from portal.models.teams import Membership
from portal.models.users import User
from portal.services import ledger
from portal.services.keys import authenticate_key
from portal.services.ledger import balance_of
from research.models.runs import Run
from research.protocol.states import State
from research.services import moves
from tests.portal.people import somebody
from tests.research.people import ask
from tests.research.people import somebody as a_caller

pytestmark = pytest.mark.django_db


def said(command: str, *arguments: str) -> str:
    """What the command printed."""
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def refused(command: str, *arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        call_command(command, *arguments)
    assert error.value.returncode == 1
    assert "\n" not in str(error.value)
    return str(error.value)


def test_it_makes_a_user_and_shows_the_password_once() -> None:
    printed = said("create_user", "ada@example.org", "--team", "Red", "--credits", "2.5")

    user = User.objects.get(email="ada@example.org")
    assert user.check_password(printed.strip().rpartition(" ")[2])
    assert Membership.objects.get(user=user).team.name == "Red"
    assert (balance_of(user.pk).available, user.is_staff) == (Decimal("2.5"), False)


def test_it_makes_an_admin_with_the_password_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a fine password\n"))

    printed = said("create_user", "ada@example.org", "--admin", "--password-stdin")

    user = User.objects.get(email="ada@example.org")
    assert (user.is_staff, user.is_superuser, user.check_password("a fine password")) == (True, True, True)
    assert "fine" not in printed
    assert balance_of(user.pk).available == 100


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["nobody"], "email"),
        (["ada@example.org", "--credits", "many"], "credits"),
        (["ada@example.org", "--credits", "-1"], "credits"),
        (["ada@example.org", "--credits", "nan"], "credits"),
        (["ada@example.org", "--credits", "0.00001"], "four decimal places"),
        (["ada@example.org", "--credits", "1e30"], "credits"),
        (["ada@example.org", "--team", " "], "team"),
    ],
)
def test_it_says_in_one_line_why_there_is_no_user(arguments: list[str], about: str) -> None:
    assert about in refused("create_user", *arguments)
    assert not User.objects.exists()


def test_it_refuses_a_second_user_and_leaves_no_team_behind() -> None:
    user = somebody()

    assert "already" in refused("create_user", user.email, "--team", "Red")
    assert not Membership.objects.filter(team__name="Red").exists()


@pytest.mark.parametrize(("stdin", "about"), [("", "no password"), ("short\n", "short")])
def test_it_refuses_a_bad_password(monkeypatch: pytest.MonkeyPatch, stdin: str, about: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))

    assert about in refused("create_user", "ada@example.org", "--password-stdin")


def test_it_prints_the_key_and_nothing_else() -> None:
    user = somebody()

    printed = said("create_api_key", user.email.upper(), "--name", "ci")

    who = authenticate_key(printed.removesuffix("\n"), None)
    assert who is not None
    assert who.user_id == user.pk


def test_it_gives_a_key_everything_that_was_asked_for() -> None:
    user = somebody()

    said(
        "create_api_key", user.email, "--name", "ci", "--scopes", "chat, mcp",
        "--expires", "2099-01-31T12:00:00Z", "--ip", "192.0.2.0/24,::1",
        "--rpm", "60", "--parallel", "2", "--monthly-cap", "7.5",
    )  # fmt: skip

    key = ApiKey.objects.get(user=user)
    assert key.scopes == ["chat", "mcp"]
    assert key.expires_at == datetime(2099, 1, 31, 12, tzinfo=UTC)
    assert key.networks == ["192.0.2.0/24", "::1/128"]
    assert [key.requests_per_minute, key.parallel_runs, key.monthly_cap] == [60, 2, Decimal("7.5")]


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["--scopes", "root"], "unknown scope root"),
        (["--scopes", ""], "scope"),
        (["--scopes", "admin"], "admin"),
        (["--expires", "tomorrow"], "not a time"),
        (["--expires", "2099-01-31"], "time zone"),
        (["--expires", "2020-01-31T12:00:00Z"], "past"),
        (["--rpm", "0"], "--rpm"),
        (["--rpm", "many"], "--rpm"),
        (["--parallel", "-1"], "--parallel"),
        (["--parallel", "9999999999"], "--parallel"),
        (["--monthly-cap", "x"], "credits"),
        (["--ip", "192.0.2.0/33"], "network"),
        (["--ip", "home"], "network"),
    ],
)
def test_it_says_in_one_line_why_there_is_no_key(arguments: list[str], about: str) -> None:
    user = somebody()

    assert about in refused("create_api_key", user.email, "--name", "ci", *arguments)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("command", [("create_api_key", "--name", "ci"), ("grant_credits", "5")])
def test_it_says_that_there_is_no_such_user(command: tuple[str, ...]) -> None:
    name, *rest = command

    assert "no user" in refused(name, "nobody@example.org", *rest)


def test_it_gives_credits() -> None:
    user = somebody(1)

    printed = said("grant_credits", user.email, "2.5")

    assert "2.5 credits: 3.5 left" in printed
    said("grant_credits", user.email, "2.5")
    assert balance_of(user.pk).available == 6


@pytest.mark.parametrize("amount", ["0", "many", "1e12", "inf"])
def test_it_gives_no_odd_amounts(amount: str) -> None:
    user = somebody(1)

    assert "credits" in refused("grant_credits", user.email, amount)
    assert balance_of(user.pk).available == 1


def test_it_gives_nobody_more_than_an_account_holds() -> None:
    user = somebody(5)

    assert refused("grant_credits", user.email, "1e9") == "nobody may have more than 1000000000 credits"
    assert balance_of(user.pk).available == 5


def test_it_proves_the_books_in_one_line() -> None:
    ask(a_caller(5))

    printed = said("ledger_check")

    assert printed.startswith(
        "the ledger is right: 2 entries in 1 accounts, granted 5 = charged 0 + reserved 2 + left 3"
    )
    assert printed.count("\n") == 1


def drifts() -> str:
    out = io.StringIO()
    with pytest.raises(CommandError, match="wrong in"):
        call_command("ledger_check", stdout=out)
    return out.getvalue()


def test_it_fails_on_a_balance_that_drifted() -> None:
    user = somebody(1)
    CreditAccount.objects.update(own=Decimal(2))

    assert drifts() == f"credits of {user}: own is 2, its entries say 1\n"


def test_it_fails_on_a_run_that_works_without_its_reservation() -> None:
    run = ask(a_caller(5))

    ledger.close(run.subject, Decimal(0))

    assert drifts() == f"{run.subject}: is at work without a reservation\n"


def test_it_fails_on_a_run_that_ended_without_giving_its_credits_back() -> None:
    run = ask(a_caller(5))

    moves.end(run, State.CANCELLED, [])

    assert drifts() == f"{run.subject}: has ended, but its credits are still reserved\n"


def test_it_fails_on_credits_reserved_for_no_run() -> None:
    ledger.reserve(somebody(5).pk, "run:nothing", Decimal(1))

    assert "run:nothing" in drifts()


def test_it_knows_free_and_refused_runs_as_right() -> None:
    run = ask(a_caller(0))

    assert Run.objects.get(pk=run.pk).state == State.FAILED
    assert "is right" in said("ledger_check")
