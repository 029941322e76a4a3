from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.http import HttpRequest
from django.http.request import HttpHeaders
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from portal.api.auth import authenticate, bearer_token, client_address, require_scope
from portal.api.authentication import KeyAuthentication, SessionAuthentication
from portal.services.keys import create_key
from portal.services.principal import Principal, principal_of
from portal.services.users import set_active
from portal.wire.errors import Forbidden, Unauthenticated
from tests.portal.people import somebody

KEY = "sonde_abcdefghij_" + "k" * 43


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"authorization": f"Bearer {KEY}"}, KEY),
        ({"authorization": f"bearer   {KEY} "}, KEY),
        ({"authorization": KEY}, KEY),
        ({"x-api-key": f" {KEY}"}, KEY),
        ({"authorization": f"Bearer {KEY}", "x-api-key": "other"}, KEY),
        ({"authorization": "Basic dXNlcjpwYXNz"}, None),
        ({"authorization": "Basic dXNlcjpwYXNz", "x-api-key": KEY}, None),
        ({"authorization": "Bearer"}, None),
        ({"authorization": "Bearer a b"}, None),
        ({"authorization": ""}, None),
        ({"authorization": "", "x-api-key": KEY}, KEY),
        ({"x-api-key": ""}, None),
        ({}, None),
    ],
)
def test_it_reads_the_key_in_each_of_its_forms(headers: dict[str, str], token: str | None) -> None:
    assert bearer_token(headers) == token


def test_it_reads_the_headers_of_a_django_request() -> None:
    assert bearer_token(HttpHeaders({"HTTP_AUTHORIZATION": f"Bearer {KEY}"})) == KEY


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "address"),
    [
        ((), "192.0.2.1", "203.0.113.9", "192.0.2.1"),
        (("10.0.0.0/8",), "10.0.0.1", "203.0.113.9", "203.0.113.9"),
        (("10.0.0.0/8",), "10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        (("10.0.0.0/8",), "10.0.0.1", "198.51.100.1, 203.0.113.9, 10.9.9.9", "203.0.113.9"),
        (("10.0.0.0/8",), "192.0.2.1", "203.0.113.9", "192.0.2.1"),
        (("10.0.0.0/8",), "10.0.0.1", "", "10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", "203.0.113.9, nonsense", "10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", "10.0.0.2", "10.0.0.2"),
        (("127.0.0.1",), "::ffff:127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        (("::1",), "::1", "2001:DB8::5", "2001:db8::5"),
        (("::1",), "::1", "203.0.113.9:4711", "203.0.113.9"),
        (("::1",), "::1", "[2001:db8::5]:4711", "2001:db8::5"),
        ((), "fe80::1%eth0", "", "fe80::1"),
        ((), None, "203.0.113.9", None),
        ((), "unix", "203.0.113.9", None),
    ],
)
def test_it_believes_proxies_as_far_as_they_are_trusted(
    monkeypatch: pytest.MonkeyPatch,
    trusted: tuple[str, ...],
    peer: str | None,
    forwarded: str,
    address: str | None,
) -> None:
    monkeypatch.setattr(settings, "TRUSTED_PROXIES", trusted)

    assert client_address({"x-forwarded-for": forwarded}, peer) == address


@given(st.text(), st.text())
def test_it_survives_every_header(peer: str, forwarded: str) -> None:
    client_address({"x-forwarded-for": forwarded}, peer)
    bearer_token({"authorization": forwarded, "x-api-key": peer})


@pytest.mark.django_db
def test_it_lets_a_key_in_and_nothing_else() -> None:
    key, text = create_key(somebody(), name="test")

    assert authenticate({"x-api-key": text}, "192.0.2.1", "req_1").key_id == key.pk
    for headers in ({}, {"x-api-key": KEY}, {"authorization": "Basic x"}):
        with pytest.raises(Unauthenticated) as refused:
            authenticate(headers, "192.0.2.1")
        assert (refused.value.code, refused.value.status) == ("invalid_api_key", 401)
        assert refused.value.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.django_db
def test_it_uses_the_clients_address_for_a_keys_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "TRUSTED_PROXIES", ("10.0.0.0/8",))
    _, text = create_key(somebody(), name="test", networks=["203.0.113.0/24"])
    headers = {"x-api-key": text, "x-forwarded-for": "203.0.113.9"}

    assert authenticate(headers, "10.0.0.1").address == "203.0.113.9"
    with pytest.raises(Unauthenticated):
        authenticate(headers, "192.0.2.1")


def test_it_asks_for_the_scope() -> None:
    who = Principal(1, frozenset({"chat"}))

    require_scope(who, "chat")
    with pytest.raises(Forbidden, match="research"):
        require_scope(who, "research")


@pytest.mark.django_db
def test_it_serves_drf_with_keys(rf: RequestFactory) -> None:
    user = somebody()
    _, text = create_key(user, name="test")
    entrance = KeyAuthentication()

    found = entrance.authenticate(Request(rf.get("/", headers={"authorization": f"Bearer {text}"})))

    assert found is not None
    assert (found[0], found[1].user_id) == (user, user.pk)
    assert entrance.authenticate(Request(rf.get("/"))) is None
    with pytest.raises(Unauthenticated):
        entrance.authenticate(Request(rf.get("/", headers={"x-api-key": KEY})))
    assert entrance.authenticate_header(Request(rf.get("/"))).startswith("Bearer")


def in_a_session(request: HttpRequest, user: Any) -> Request:
    request.user = user
    asked = Request(request)
    asked._request.user = user
    return asked


@pytest.mark.django_db
def test_it_serves_drf_with_sessions_that_can_do_what_the_user_may(rf: RequestFactory) -> None:
    admin = somebody(admin=True)

    found = SessionAuthentication().authenticate(in_a_session(rf.get("/", REMOTE_ADDR="192.0.2.1"), admin))

    assert found == (admin, principal_of(admin, address="192.0.2.1"))
    assert found[1].is_staff


@pytest.mark.django_db
def test_it_takes_no_post_of_a_session_without_its_csrf_token() -> None:
    request = RequestFactory(enforce_csrf_checks=True).post("/")

    with pytest.raises(PermissionDenied, match="CSRF"):
        SessionAuthentication().authenticate(in_a_session(request, somebody()))


@pytest.mark.django_db
def test_it_knows_no_session_of_a_disabled_user(rf: RequestFactory) -> None:
    user = somebody()
    set_active(user, False, actor=None)

    assert SessionAuthentication().authenticate(in_a_session(rf.get("/"), user)) is None
