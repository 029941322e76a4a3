from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from portal.models.system import RateWindow
from portal.services import limits, redis_windows
from portal.services.limits import LimitState, admit_request
from portal.services.principal import ChatTerms, Principal
from portal.wire.errors import RateLimited
from tests.portal.people import all_at_once, the_clock_at
from tests.services import Valkey, free_port

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 12, 1, 12, 0, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def redis_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the test before saw."""
    monkeypatch.setattr(limits, "_redis_away_until", 0.0)


@pytest.fixture(params=["database", pytest.param("redis", marks=pytest.mark.cluster)])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where windows are counted; both must say the same."""
    if request.param == "database":
        monkeypatch.setattr(settings, "REDIS_URL", "")
    else:
        redis_windows.server(settings.REDIS_URL).flushdb()


def caller(user: int | None = None, key: int | None = None, user_id: int = 7) -> Principal:
    return Principal(user_id, frozenset(), key_id=3, user_limit=user, key_limit=key)


def ask(who: Principal, times: int = 1) -> list[LimitState | RateLimited]:
    answers: list[LimitState | RateLimited] = []
    for _ in range(times):
        try:
            answers.append(admit_request(who))
        except RateLimited as refused:
            answers.append(refused)
    return answers


def admitted(answers: list[Any]) -> int:
    return sum(isinstance(answer, LimitState) for answer in answers)


def test_it_asks_nobody_while_no_limit_is_set(
    django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")

    with django_assert_num_queries(0):
        state = admit_request(caller())

    assert state.headers == {}


@pytest.mark.usefixtures("store")
def test_it_admits_as_many_as_the_limit_says_and_tells_how_many_are_left() -> None:
    with the_clock_at(NOON):
        answers = ask(caller(user=3), 4)

    assert [answer.remaining for answer in answers[:3]] == [2, 1, 0]  # type: ignore[union-attr]  # admitted
    assert answers[0].headers == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "40s",
    }
    assert isinstance(answers[3], RateLimited)
    assert answers[3].headers == {
        "Retry-After": "40",
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "40s",
    }


@pytest.mark.usefixtures("store")
def test_it_begins_anew_with_the_next_minute() -> None:
    for minutes in range(3):
        with the_clock_at(NOON + timedelta(minutes=minutes)):
            assert admitted(ask(caller(user=2), 3)) == 2


@pytest.mark.usefixtures("store")
def test_it_lets_a_refused_request_use_nothing() -> None:
    with the_clock_at(NOON):
        assert admitted(ask(caller(user=5, key=2), 9)) == 2
        assert admitted(ask(caller(user=5), 9)) == 3

        assert admitted(ask(caller(user=5, key=9), 9)) == 0
        assert admitted(ask(caller(key=9), 9)) == 7


@pytest.mark.usefixtures("store")
def test_it_tells_the_tighter_of_two_limits() -> None:
    with the_clock_at(NOON):
        assert admit_request(caller(user=10, key=3)).limit == 3
        assert admit_request(caller(user=2, key=30)).limit == 2


@pytest.mark.usefixtures("store")
def test_it_counts_each_user_apart() -> None:
    with the_clock_at(NOON):
        assert admitted(ask(caller(user=1, user_id=1)) + ask(caller(user=1, user_id=2))) == 2


@pytest.mark.usefixtures("store")
def test_it_admits_nothing_at_a_limit_of_zero() -> None:
    with the_clock_at(NOON):
        assert admitted(ask(caller(user=0))) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("store")
def test_it_is_exact_when_many_come_at_once() -> None:
    with the_clock_at(NOON):
        answers = all_at_once(20, lambda place: admit_request(caller(user=9, key=7)))

        assert admitted(answers) == 7
        assert admitted(ask(caller(user=9), 9)) == 2


@pytest.mark.parametrize(("second", "retry_after"), [(0, "60"), (59, "1")])
def test_it_says_when_to_come_back_within_a_minute(second: int, retry_after: str) -> None:
    with the_clock_at(NOON.replace(second=second)), pytest.raises(RateLimited) as refused:
        admit_request(caller(user=0))

    assert refused.value.headers["Retry-After"] == retry_after


def test_it_keeps_one_row_for_each_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "")
    for minutes in range(4):
        with the_clock_at(NOON + timedelta(minutes=minutes)):
            ask(caller(user=5, key=5), 2)

    assert sorted(RateWindow.objects.values_list("subject", flat=True)) == ["key:3", "user:7"]


def test_it_counts_in_the_database_while_redis_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")

    with the_clock_at(NOON):
        assert admitted(ask(caller(user=2), 3)) == 2


def test_it_returns_to_a_redis_that_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Valkey()
    monkeypatch.setattr(limits, "REDIS_REST", 0.0)
    monkeypatch.setattr(settings, "REDIS_URL", server.url)
    try:
        with the_clock_at(NOON):
            ask(caller(user=9))
            server.start()
            ask(caller(user=9))
        assert redis_windows.server(server.url).dbsize() == 1
        assert RateWindow.objects.get().count == 1
    finally:
        server.close()


def chat(who: Principal) -> bool:
    """Whether a chat was let in, in a transaction as a door has it."""
    try:
        with transaction.atomic():
            limits.count_chat(who)
    except RateLimited:
        return False
    return True


def chatter(key: int | None = None, user: int | None = None) -> Principal:
    return Principal(7, frozenset(), key_id=3, chat=ChatTerms(key_daily=key, user_daily=user))


@pytest.mark.django_db(transaction=True)
def test_it_counts_chats_of_a_day_exactly_whoever_comes_at_once() -> None:
    let_in = all_at_once(12, lambda _: chat(chatter(key=9, user=5)))

    assert sorted(map(str, let_in)) == ["False"] * 7 + ["True"] * 5
    assert RateWindow.objects.get(subject="chat:key:3").count == 5


def test_it_begins_a_new_day_of_chats_at_midnight() -> None:
    with the_clock_at(NOON):
        assert [chat(chatter(user=1)) for _ in range(2)] == [True, False]
    with the_clock_at(NOON + timedelta(hours=12)):
        assert chat(chatter(user=1))


def test_it_gives_a_chat_back_that_came_to_nothing() -> None:
    with the_clock_at(NOON):
        assert chat(chatter(user=1))

        limits.uncount_chat(7, 3, NOON)

        assert [chat(chatter(user=1)) for _ in range(2)] == [True, False]
