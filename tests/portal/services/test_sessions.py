"""Session cookies with anything in them."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.services.sessions import SessionStore
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db
NUL = '"\\000\\000\\000\\000\\000\\000\\000\\000"'
"""As a header may carry it: quoted, in octal."""


@pytest.mark.parametrize(
    "cookie", [NUL, "", "short", "x" * 33, "X" * 32, "é" * 32, "'; --", "a" * 60_000, "a" * 31 + "\\n"]
)
@pytest.mark.parametrize("path", ["/runs", "/account/login/", "/api/account"])
def test_it_takes_any_cookie_for_no_session(cookie: str, path: str) -> None:
    answer = Client(headers={"cookie": f"sessionid={cookie}"}).get(path)

    assert answer.status_code in (200, 302, 401)


def test_it_knows_the_sessions_that_it_made() -> None:
    client = Client()
    client.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")

    assert SessionStore(client.cookies["sessionid"].value).get("_auth_user_id")
    assert client.get("/runs").status_code == 200
