from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.services import key_memory, keys, users
from portal.services.key_memory import LIFE_SECONDS, recall
from portal.services.keys import authenticate_key, create_key
from tests.portal.people import somebody, the_clock_at

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    key_memory.forget_all()
    yield
    key_memory.forget_all()


def test_it_knows_a_key_that_proved_itself_a_moment_ago() -> None:
    _, text = create_key(somebody(), name="one")
    proved = authenticate_key(text, "192.0.2.1", "req_1")

    known = recall(text, "192.0.2.1", "req_1")

    assert known == proved is not None


def test_it_tells_each_request_from_the_next() -> None:
    _, text = create_key(somebody(), name="one")
    authenticate_key(text, "192.0.2.1", "req_1")

    known = recall(text, "192.0.2.2", "req_2")

    assert known is not None
    assert (known.address, known.request_id) == ("192.0.2.2", "req_2")


def test_it_knows_nobody_who_did_not_prove_anything() -> None:
    _, text = create_key(somebody(), name="one")
    assert authenticate_key(text + "x", "192.0.2.1") is None

    assert recall(text, "192.0.2.1", "") is None
    assert recall(text + "x", "192.0.2.1", "") is None


def test_it_forgets_within_less_than_the_second_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = create_key(somebody(), name="one")
    authenticate_key(text, "192.0.2.1")
    assert LIFE_SECONDS < 1
    moment = time.monotonic() + LIFE_SECONDS + 0.001
    monkeypatch.setattr(time, "monotonic", lambda: moment)

    assert recall(text, "192.0.2.1", "") is None


def test_it_ends_with_the_key() -> None:
    _, text = create_key(somebody(), name="one", expires_at=timezone.now() + timedelta(hours=1))
    authenticate_key(text, "192.0.2.1")

    with the_clock_at(timezone.now() + timedelta(hours=2)):
        assert recall(text, "192.0.2.1", "") is None


def test_it_does_not_remember_a_key_that_is_bound_to_addresses() -> None:
    _, text = create_key(somebody(), name="one", networks=["192.0.2.0/24"])
    assert authenticate_key(text, "192.0.2.1") is not None

    assert recall(text, "198.51.100.1", "") is None
    assert recall(text, "192.0.2.1", "") is None


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_revoked_here_stops_at_once() -> None:
    key, text = create_key(somebody(), name="one")
    authenticate_key(text, "192.0.2.1")
    keys.revoke_key(key)

    assert recall(text, "192.0.2.1", "") is None


def test_it_does_not_remember_what_was_read_before_a_revocation() -> None:
    _, text = create_key(somebody(), name="one")
    asked_at = key_memory.moment()
    principal = authenticate_key(text, "192.0.2.1")
    key_memory.forget_all()
    assert principal is not None

    key_memory.remember(text, principal, None, asked_at)

    assert recall(text, "192.0.2.1", "") is None


@pytest.mark.django_db(transaction=True)
def test_a_user_who_is_disabled_here_stops_at_once() -> None:
    user = somebody()
    _, text = create_key(user, name="one")
    authenticate_key(text, "192.0.2.1")
    users.set_active(user, False, actor=None)

    assert recall(text, "192.0.2.1", "") is None
