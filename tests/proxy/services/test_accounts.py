"""Which account is taken, what each answer means for it, and which of two tokens stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.services import sealing
from portal.wire.errors import RateLimited, Unavailable
from proxy.models.accounts import WebAccount
from proxy.protocol.delta import Fault, FaultKind
from proxy.protocol.session import TOKEN, Tier
from proxy.services import accounts
from proxy.services.accounts import note_fault, note_success, store_cookies, take_account, why_none
from tests.portal.people import all_at_once, somebody
from tests.proxy.accounts import account, occupy, token

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _in_the_sandbox(settings: Settings) -> None:
    settings.SONDE_UPSTREAM = "sandbox"


def take(tier: Tier = "pro", *, counted: bool = True, **more: Any) -> str | None:
    with transaction.atomic():
        taken = take_account(tier_needed=tier, counted=counted, **more)
    return taken.name if taken else None


def now_of(account: WebAccount) -> WebAccount:
    account.refresh_from_db()
    return account


def test_it_takes_the_first_by_priority() -> None:
    account("second", priority=2)
    account("first", priority=1)

    assert take() == "first"


def test_it_takes_the_idlest_of_equals() -> None:
    busy, user = account("busy", parallel_limit=4), somebody()
    account("idle", parallel_limit=4, succeeded_at=timezone.now())
    occupy(busy, user.pk, 2)

    assert take() == "idle"


def test_it_takes_turns_between_idle_equals() -> None:
    now = timezone.now()
    account("just used", succeeded_at=now)
    account("long unused", succeeded_at=now - HOUR)

    assert take() == "long unused"


def test_it_prefers_a_proven_account_to_a_doubtful_one() -> None:
    account("doubtful", health="limited")
    account("proven", health="active", succeeded_at=timezone.now())

    assert take() == "proven"


def test_it_keeps_to_the_account_whose_thread_goes_on() -> None:
    account("first", priority=1)
    mine = account("mine", priority=9)

    assert take(preferred=mine.pk) == "mine"


@pytest.mark.parametrize(
    "fields",
    [
        {"enabled": False},
        {"draining": True},
        {"health": "expired"},
        {"jar": ""},
        {"tier": "free"},
        {"sandbox": False},
        {"retry_at": timezone.now() + HOUR},
        {"remaining_pro": 0, "quota_at": timezone.now() + HOUR},
        {"jar_changed_at": timezone.now() - timedelta(days=8)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_it_passes_over_whoever_cannot_answer(fields: dict[str, Any]) -> None:
    account("unfit", **fields)

    assert take() is None


@pytest.mark.parametrize(
    "fields",
    [
        {"retry_at": timezone.now() - HOUR, "health": "blocked"},
        {"remaining_pro": 0, "quota_at": timezone.now() - 7 * HOUR},
        {"remaining_pro": None},
        {
            "jar_changed_at": timezone.now() - timedelta(days=8),
            "checked_at": timezone.now() - timedelta(days=6),
        },
        {"jar_changed_at": timezone.now() - timedelta(days=8), "succeeded_at": timezone.now()},
    ],
    ids=["rested", "counter too old", "counter unknown", "checked since", "answered since"],
)
def test_it_takes_whoever_can_again(fields: dict[str, Any]) -> None:
    account("fit", **fields)

    assert take() == "fit"


def test_it_asks_an_account_without_uses_for_what_is_not_counted() -> None:
    account("used up", remaining_pro=0, quota_at=timezone.now())

    assert take(counted=True) is None
    assert take("free", counted=False) == "used up"


def test_it_takes_no_more_than_an_account_may_do_at_once() -> None:
    full, user = account("full", parallel_limit=2), somebody()
    occupy(full, user.pk, 2)

    assert take() is None
    full.turns.update(lease_until=timezone.now() - HOUR)  # the process that had them died
    assert take() == "full"


def test_it_leaves_out_the_ones_that_were_tried() -> None:
    tried = account("tried")

    assert take(excluded=[tried.pk]) is None


@pytest.mark.django_db(transaction=True)
def test_it_never_gives_one_place_twice() -> None:
    for name in ("one", "two"):
        account(name, parallel_limit=3)
    user = somebody()

    def race(_: int) -> str | None:
        with transaction.atomic():
            mine = take_account(tier_needed="pro", counted=True)
            if mine is not None:
                occupy(mine, user.pk)
            return mine.name if mine else None

    taken = [name for name in all_at_once(12, race) if name is not None]

    assert sorted(map(str, taken)) == ["one"] * 3 + ["two"] * 3


def test_it_says_that_there_is_no_session() -> None:
    problem = why_none(tier_needed="pro", counted=True)

    assert isinstance(problem, Unavailable)
    assert "No Perplexity session is configured" in problem.message
    assert problem.headers == {"x-should-retry": "false"}


def test_it_says_that_all_are_signed_out() -> None:
    account(health="expired")

    problem = why_none(tier_needed="pro", counted=True)

    assert isinstance(problem, Unavailable)
    assert "administrator must renew" in problem.message


def test_it_says_when_the_first_may_be_asked_again() -> None:
    now = timezone.now()
    account("soon", health="blocked", retry_at=now + timedelta(seconds=30))
    account("later", health="limited", retry_at=now + HOUR)

    problem = why_none(tier_needed="pro", counted=True)

    assert isinstance(problem, Unavailable)
    assert int(problem.headers["Retry-After"]) in (30, 31)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["blocked", "blocked"], "network protection refuses every session"),
        (["limited"], "limits the requests of every session"),
        (["blocked", "limited"], "busy"),
        (["active"], "busy"),
    ],
)
def test_it_says_what_keeps_all_of_them_from_answering(states: list[str], said: str) -> None:
    for number, state in enumerate(states):
        account(str(number), health=state, retry_at=timezone.now() + HOUR)

    assert said in why_none(tier_needed="pro", counted=True).message


def test_it_speaks_of_quota_only_when_no_account_has_any_left() -> None:
    account("used up", remaining_pro=0, quota_at=timezone.now())
    other = account("blocked", health="blocked", retry_at=timezone.now() + HOUR, remaining_pro=5)

    assert isinstance(why_none(tier_needed="pro", counted=True), Unavailable)

    WebAccount.objects.filter(pk=other.pk).update(remaining_pro=0, quota_at=timezone.now())
    problem = why_none(tier_needed="pro", counted=True)
    assert isinstance(problem, RateLimited)
    assert problem.code == "insufficient_quota"


def test_it_counts_an_answer_and_clears_what_troubled_the_account() -> None:
    mine = account(health="limited", faults=3, remaining_pro=7, retry_at=timezone.now() + HOUR)

    note_success(mine.pk, counted=True)

    assert now_of(mine).remaining_pro == 6
    assert (mine.health, mine.faults, mine.retry_at) == ("active", 0, None)
    assert mine.succeeded_at is not None


@pytest.mark.parametrize(("left", "counted", "after"), [(0, True, 0), (7, False, 7), (None, True, None)])
def test_it_counts_no_further_than_it_knows(left: int | None, counted: bool, after: int | None) -> None:
    mine = account(remaining_pro=left)

    note_success(mine.pk, counted=counted)

    assert now_of(mine).remaining_pro == after


def test_it_does_not_clear_a_trouble_that_began_after_the_answer() -> None:
    mine, before = account(), timezone.now() - HOUR
    note_fault(mine.pk, Fault(FaultKind.BLOCKED))

    note_success(mine.pk, counted=True, opened_at=before)

    assert now_of(mine).health == "blocked"


def test_an_answer_does_not_revive_an_expired_session() -> None:
    mine = account(health="expired")

    note_success(mine.pk, counted=True)

    assert now_of(mine).health == "expired"


@pytest.mark.parametrize(
    ("kind", "health", "is_checked"),
    [
        (FaultKind.BLOCKED, "blocked", False),
        (FaultKind.RATE_LIMITED, "limited", False),
        (FaultKind.QUOTA, "limited", False),
        (FaultKind.SIGNED_OUT, "active", True),
        (FaultKind.FORBIDDEN, "active", True),
        (FaultKind.UNAVAILABLE, "active", False),
        (FaultKind.UNREACHABLE, "active", False),
        (FaultKind.TIMED_OUT, "active", False),
        (FaultKind.REJECTED, "active", False),
        (FaultKind.CUT, "active", False),
    ],
)
def test_each_fault_does_its_own_to_the_account(kind: FaultKind, health: str, is_checked: bool) -> None:
    mine = account(health="active", check_due_at=timezone.now() + HOUR)

    note_fault(mine.pk, Fault(kind))

    assert now_of(mine).health == health
    assert (mine.check_due_at <= timezone.now()) is is_checked
    assert mine.alert_due_at is None  # nothing but a check says that a session has expired


def test_trouble_of_an_account_that_is_gone_is_nobodys() -> None:
    mine = account()
    mine.delete()

    note_fault(mine.pk or 0, Fault(FaultKind.SIGNED_OUT))

    assert not WebAccount.objects.exists()


def test_a_suspected_account_is_not_asked_until_it_was_checked() -> None:
    mine = account(health="active")

    note_fault(mine.pk, Fault(FaultKind.SIGNED_OUT))

    assert take() is None


def test_it_lets_an_account_rest_longer_with_each_block() -> None:
    mine = account()
    rests = []
    for _ in range(3):
        note_fault(mine.pk, Fault(FaultKind.BLOCKED))
        rests.append((now_of(mine).retry_at or timezone.now()) - timezone.now())

    assert [round(rest.total_seconds()) for rest in rests] == [30, 60, 120]


def test_it_obeys_the_upstream_s_own_wait() -> None:
    mine = account()

    note_fault(mine.pk, Fault(FaultKind.RATE_LIMITED, retry_after=42))

    retry_at = now_of(mine).retry_at
    assert retry_at is not None
    assert 40 < (retry_at - timezone.now()).total_seconds() <= 42


def test_a_spent_quota_leaves_the_models_that_are_not_counted() -> None:
    mine = account(remaining_pro=12)

    note_fault(mine.pk, Fault(FaultKind.QUOTA))

    assert now_of(mine).remaining_pro == 0
    assert take(counted=True) is None
    assert take("free", counted=False) == mine.name


def test_a_fault_of_a_replaced_cookie_says_nothing_about_the_new_one() -> None:
    mine = account(health="active", jar_version=5)

    note_fault(mine.pk, Fault(FaultKind.BLOCKED), jar_version=4)

    assert now_of(mine).health == "active"


def rotated(value: str) -> tuple[str, ...]:
    return (f"{TOKEN}={value}; Path=/; Secure; HttpOnly",)


def test_it_keeps_a_rotated_token() -> None:
    mine = account()

    store_cookies(mine.pk, 1, rotated("sandbox-max-tester.2"))

    assert token(mine) == "sandbox-max-tester.2"
    assert now_of(mine).jar_version == 1


def test_of_two_rotations_the_one_that_was_answered_last_stays() -> None:
    mine, now = account(), timezone.now()

    store_cookies(mine.pk, 1, rotated("answered-second"), now)
    store_cookies(mine.pk, 1, rotated("answered-first"), now - timedelta(milliseconds=1))

    assert token(mine) == "answered-second"


def test_a_rotation_of_the_cookie_before_does_not_undo_a_new_one() -> None:
    mine = account(jar_version=2)

    store_cookies(mine.pk, 1, rotated("of-the-cookie-before"))

    assert token(mine) == "sandbox-max-tester"


@pytest.mark.parametrize("lines", [(), ("other=1",), (f"{TOKEN}=; Max-Age=0",)])
def test_it_never_loses_the_token(lines: tuple[str, ...]) -> None:
    mine = account()

    store_cookies(mine.pk, 1, lines)

    assert token(mine) == "sandbox-max-tester"


@pytest.mark.django_db(transaction=True)
def test_of_rotations_at_the_same_time_the_newest_stays() -> None:
    mine, now = account(), timezone.now()

    def store(number: int) -> None:
        store_cookies(mine.pk, 1, rotated(f"token-number-{number}"), now + timedelta(milliseconds=number))

    assert all_at_once(8, store) == [None] * 8

    assert token(mine) == "token-number-7"


def test_it_seals_the_cookies_into_their_row() -> None:
    mine, other = account("mine"), account("other")

    assert "sandbox-max-mine" not in mine.jar
    WebAccount.objects.filter(pk=other.pk).update(jar=mine.jar)
    with pytest.raises(sealing.SealError):
        accounts.jar_of(now_of(other))
