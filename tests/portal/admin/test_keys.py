from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.contrib.sessions.models import Session

from portal.models.keys import ApiKey
from portal.services.keys import authenticate_key, create_key
from tests.portal.admin.site import Site, told
from tests.portal.admin.test_people import audited, shown
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return Site()


def test_it_makes_a_key_that_is_shown_once(site: Site) -> None:
    user = somebody()

    answer = site.add(
        ApiKey,
        user=user.email,
        name="ci",
        scopes=["chat", "research"],
        prompt_policy="forward",
        networks="192.0.2.7, 10.0.0.0/8",
        monthly_cap="2.5",
        requests_per_minute="60",
        expires_at="2099-01-31 12:00",
    )

    [text] = shown(answer.text)
    who = authenticate_key(text, "10.1.2.3")
    assert who is not None
    assert (who.user_id, who.key_limit) == (user.pk, 60)
    key = ApiKey.objects.get()
    assert key.networks == ["192.0.2.7/32", "10.0.0.0/8"]
    assert key.expires_at == datetime(2099, 1, 31, 12, tzinfo=UTC)
    assert key.monthly_cap == Decimal("2.5")
    assert who.chat.prompt_policy == "forward"
    assert audited(site, "key.created")
    assert text not in str(Session.objects.values_list("session_data")) + str(answer.cookies)
    assert text not in site.look(ApiKey).text


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": ""},
        {"user": "nobody@example.org"},
        {"name": " "},
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": ["admin"]},
        {"networks": "home"},
        {"monthly_cap": "-1"},
        {"monthly_cap": "0.00001"},
        {"monthly_cap": "1e30"},
        {"expires_at": "2020-01-01 00:00"},
        {"expires_at": "tomorrow"},
    ],
)
def test_it_says_what_is_wrong_with_a_key(site: Site, wrong: dict[str, object]) -> None:
    good = {"user": somebody().email, "name": "ci", "scopes": ["chat"], "prompt_policy": "filter"}

    answer = site.add(ApiKey, **(good | wrong))

    assert answer.context["errors"]
    assert not ApiKey.objects.exists()


def test_it_changes_name_and_limits_only(site: Site) -> None:
    key, text = create_key(somebody(), name="old", scopes=["chat"])

    site.change(
        key,
        name="new",
        networks="192.0.2.0/24",
        monthly_cap="5",
        prompt_policy="filter",
        user=site.admin.pk,
        scopes=["admin"],
    )

    fresh = ApiKey.objects.get(pk=key.pk)
    assert (fresh.name, fresh.networks, fresh.monthly_cap) == ("new", ["192.0.2.0/24"], 5)
    assert (fresh.user_id, fresh.scopes, fresh.digest) == (key.user_id, ["chat"], key.digest)
    assert authenticate_key(text, "192.0.2.1") is not None
    assert audited(site, "apikey.changed")


def test_it_revokes(site: Site) -> None:
    key, text = create_key(somebody(), name="ci")

    assert told(site.act("revoke", key)) == ["1 revoked."]

    assert authenticate_key(text, None) is None
    assert told(site.act("revoke", key)) == ["Nothing was changed."]
    assert audited(site, "key.revoked")


def test_it_rotates_and_shows_the_new_keys_once(site: Site) -> None:
    user = somebody()
    first, old = create_key(user, name="first")
    second, _ = create_key(user, name="second")
    site.act("revoke", second)

    answer = site.act("rotate", first, second)

    [text] = shown(answer.text)
    assert authenticate_key(text, None) is not None
    assert authenticate_key(old, None) is None
    assert "this key is revoked" in answer.text
