from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from portal.models.audit import AuditEntry
from portal.models.keys import ApiKey
from portal.models.users import User
from portal.services.errors import Invalid
from portal.services.keys import (
    authenticate_key,
    checked_networks,
    create_key,
    import_key,
    revoke_key,
    rotate_key,
)
from portal.services.principal import USER_SCOPES
from portal.services.users import set_active
from portal.wire.errors import Forbidden
from portal.wire.ids import parse_key
from tests.portal.people import all_at_once, an_admin, somebody, the_clock_at

pytestmark = pytest.mark.django_db


def a_key(user: User | None = None, **fields: object) -> tuple[ApiKey, str]:
    return create_key(user or somebody(), name="test", **fields)  # type: ignore[arg-type]


def test_it_opens_with_the_text_that_was_shown_once() -> None:
    user = somebody()
    key, text = a_key(user, requests_per_minute=7)

    who = authenticate_key(text, "192.0.2.1", "req_1")

    assert who is not None
    assert (who.user_id, who.key_id, who.key_public_id) == (user.pk, key.pk, key.public_id)
    assert (who.address, who.request_id, who.key_limit) == ("192.0.2.1", "req_1", 7)
    assert who.scopes == USER_SCOPES


def test_it_keeps_nothing_that_opens_anything() -> None:
    _, text = a_key()
    secret = text.split("_", 2)[2]

    with connection.cursor() as cursor:
        for table in ("portal_apikey", "portal_auditentry"):
            cursor.execute(f"SELECT * FROM {table}")
            assert secret not in str(cursor.fetchall())


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.upper(),
        lambda text: f"sonde_{'a' * 10}_{text.split('_', 2)[2]}",
        lambda text: text.split("_", 2)[2],
        lambda text: f" {text}",
        lambda text: "",
        lambda text: "x" * 1_000_000,
        lambda text: "sonde_\x00",
    ],
)
def test_it_opens_with_nothing_else(change: object) -> None:
    _, text = a_key()

    assert authenticate_key(change(text), None) is None  # type: ignore[operator]  # a lambda


@given(st.text())
def test_it_survives_every_text(text: str) -> None:
    assert authenticate_key(text, "192.0.2.1") is None


def test_it_stops_at_once_when_revoked() -> None:
    key, text = a_key()

    assert revoke_key(key)

    assert authenticate_key(text, None) is None
    assert not revoke_key(key)


def test_it_stops_when_expired() -> None:
    now = timezone.now()
    _, text = a_key(expires_at=now + timedelta(hours=1))

    with the_clock_at(now + timedelta(minutes=59)):
        assert authenticate_key(text, None) is not None
    with the_clock_at(now + timedelta(hours=1)):
        assert authenticate_key(text, None) is None


@pytest.mark.parametrize(
    ("address", "opens"),
    [
        ("192.0.2.7", True),
        ("192.0.3.7", False),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
        (None, False),
    ],
)
def test_it_opens_from_its_networks_only(address: str | None, opens: bool) -> None:
    _, text = a_key(networks=["192.0.2.0/24", "2001:db8::/32"])

    assert (authenticate_key(text, address) is not None) == opens


def test_it_tells_a_disabled_user_from_a_wrong_key() -> None:
    user = somebody()
    _, text = a_key(user)
    set_active(user, False, actor=None)

    with pytest.raises(Forbidden):
        authenticate_key(text, None)

    assert authenticate_key(text[:-1] + "_", None) is None


def test_it_asks_the_database_once(django_assert_num_queries: pytest.FixtureRequest) -> None:
    _, text = a_key()
    authenticate_key(text, None)

    with django_assert_num_queries(1):  # type: ignore[operator]  # pytest-django's fixture
        authenticate_key(text, None)


def test_it_notes_its_use_once_a_minute() -> None:
    key, text = a_key()
    start = datetime(2026, 12, 1, tzinfo=UTC)
    for seconds, noted in ((0, 0), (59, 0), (61, 61)):
        with the_clock_at(start + timedelta(seconds=seconds)):
            authenticate_key(text, None)
        key.refresh_from_db()
        assert key.last_used_at == start + timedelta(seconds=noted)


def test_it_rotates_to_a_new_key_with_the_same_rights() -> None:
    key, text = a_key(networks=["192.0.2.0/24"], scopes=["chat"], monthly_cap=Decimal(5), parallel_runs=2)

    fresh, new_text = rotate_key(key)

    assert authenticate_key(text, "192.0.2.1") is None
    who = authenticate_key(new_text, "192.0.2.1")
    assert who is not None
    assert who.scopes == {"chat"}
    assert (fresh.monthly_cap, fresh.parallel_runs, fresh.networks) == (5, 2, ["192.0.2.0/24"])


def test_it_rotates_no_revoked_key() -> None:
    key, _ = a_key()
    revoke_key(key)

    with pytest.raises(Invalid):
        rotate_key(key)


@pytest.mark.django_db(transaction=True)
def test_it_rotates_once_when_two_ask_at_once() -> None:
    key, _ = a_key()

    outcomes = all_at_once(4, lambda place: rotate_key(ApiKey.objects.get(pk=key.pk)))

    assert sum(isinstance(outcome, Invalid) for outcome in outcomes) == 3
    assert ApiKey.objects.filter(revoked_at=None).count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["admin"]}, "scopes"),
        ({"networks": ["192.0.2.0/33"]}, "networks"),
        ({"networks": ["home"]}, "networks"),
        ({"networks": [f"10.0.{n}.0/24" for n in range(101)]}, "networks"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at"),  # noqa: DTZ001 -- naive on purpose
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at"),
        ({"monthly_cap": Decimal(-1)}, "monthly_cap"),
        ({"monthly_cap": Decimal("0.00001")}, "monthly_cap"),
        ({"monthly_cap": Decimal("NaN")}, "monthly_cap"),
        ({"monthly_cap": Decimal("1e30")}, "monthly_cap"),
        ({"requests_per_minute": -1}, "requests_per_minute"),
    ],
)
def test_it_says_what_is_wrong_with_a_key(fields: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_key(somebody(), **{"name": "test", **fields})  # type: ignore[arg-type]

    assert refused.value.field == field
    assert not ApiKey.objects.exists()


def test_it_takes_single_addresses_and_networks_with_host_bits() -> None:
    assert checked_networks(["192.0.2.7", " 10.1.2.3/8", "::1"]) == ["192.0.2.7/32", "10.0.0.0/8", "::1/128"]


def test_it_writes_networks_as_it_writes_the_addresses_in_them() -> None:
    assert checked_networks(["::ffff:192.0.2.0/120", "::ffff:192.0.2.7", "192.0.2.0/24"]) == [
        "192.0.2.0/24",
        "192.0.2.7/32",
    ]
    assert checked_networks(["fe80::1%eth0"]) == ["fe80::1/128"]
    assert checked_networks(["::/0", "::ffff:0:0/95"]) == ["::/0", "::fffe:0:0/95"]


def test_it_gives_the_admin_scope_to_admins_only_and_as_long_as_they_are() -> None:
    admin = somebody(admin=True)
    _, text = a_key(admin, scopes=["research", "admin"])
    who = authenticate_key(text, None)
    assert who is not None
    assert who.is_staff

    User.objects.filter(pk=admin.pk).update(is_staff=False)

    who = authenticate_key(text, None)
    assert who is not None
    assert not who.is_staff
    assert who.scopes == {"research"}


def test_it_gives_a_key_without_the_scope_no_rights_of_its_admin() -> None:
    _, text = a_key(somebody(admin=True))

    who = authenticate_key(text, None)

    assert who is not None
    assert not who.is_staff


@pytest.mark.parametrize("text", ["operators-own-key", "sonde_" + "a" * 10 + "_" + "B" * 43, "x" * 512])
def test_it_imports_a_key_of_any_form(text: str) -> None:
    user = somebody(admin=True)

    key = import_key(user, text)

    who = authenticate_key(text, None)
    assert who is not None
    assert who.key_id == key.pk
    assert text not in (key.public_id, key.digest)
    assert import_key(user, text).pk == key.pk


def test_it_ends_an_imported_key_that_was_changed() -> None:
    user = somebody(admin=True)
    import_key(user, "the-first-key-123")

    import_key(user, "the-second-key-123")

    assert authenticate_key("the-first-key-123", None) is None
    assert authenticate_key("the-second-key-123", None) is not None


def test_it_takes_an_imported_key_back_that_another_had_replaced() -> None:
    user = somebody(admin=True)
    for text in ("the-first-key-123", "the-second-key-123", "the-first-key-123"):
        import_key(user, text)

    assert authenticate_key("the-first-key-123", None) is not None
    assert authenticate_key("the-second-key-123", None) is None


def test_it_imports_a_key_of_its_own_making_again() -> None:
    user = somebody(admin=True)
    key, text = a_key(user)

    assert import_key(user, text).pk == key.pk
    with pytest.raises(Invalid, match="another key"):
        import_key(user, text[:-2] + "__")


def test_it_does_not_revive_an_imported_key_that_was_revoked() -> None:
    user = somebody(admin=True)
    revoke_key(import_key(user, "the-first-key-123"))

    import_key(user, "the-first-key-123")

    assert authenticate_key("the-first-key-123", None) is None


@pytest.mark.parametrize(
    "text",
    ["", "too-short-a-key", "with spaces in it !", "schlüssel-schlüssel", "x" * 513, "tab\tin-it-0123456"],
)
def test_it_imports_nothing_weak_or_odd(text: str) -> None:
    with pytest.raises(Invalid, match="PPLX_PROXY_API_KEY"):
        import_key(somebody(admin=True), text)


def test_it_writes_down_who_did_what_to_a_key() -> None:
    actor = an_admin()
    key, _ = create_key(somebody(), name="test", actor=actor)
    fresh, _ = rotate_key(key, actor=actor)
    revoke_key(fresh, actor=actor)

    entries = AuditEntry.objects.filter(actor_id=actor.user_id).order_by("id")

    assert [(entry.action, entry.target) for entry in entries] == [
        ("key.created", f"key:{key.public_id}"),
        ("key.revoked", f"key:{key.public_id}"),
        ("key.rotated", f"key:{fresh.public_id}"),
        ("key.revoked", f"key:{fresh.public_id}"),
    ]


def test_it_shows_keys_in_the_form_of_the_contract() -> None:
    key, text = a_key()

    parsed = parse_key(text)

    assert parsed is not None
    assert parsed.public_id == key.public_id
    assert text not in str(key)
