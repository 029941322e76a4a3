"""Who may post a form that is larger than usual."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from portal.api.large_forms import LargeForms
from portal.api.threads import run_in_database
from tests.portal.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)
USUAL: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
LARGEST = USUAL * 4
forms = LargeForms({"/": LARGEST})


def signed_in() -> str:
    client = Client()
    client.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies[settings.SESSION_COOKIE_NAME].value


async def asked(cookie: str, path: str = "/", **headers: str) -> int:
    said = {"content-length": str(LARGEST), "cookie": f"a=b; sessionid={cookie}", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in said.items()]
    scope: dict[str, Any] = {"type": "http", "path": path, "headers": raw}
    return await forms(scope)


async def test_it_takes_large_forms_of_whoever_is_signed_in() -> None:
    session = await run_in_database(signed_in)

    assert await asked(session) == LARGEST
    assert await asked(session, transfer_encoding="chunked") == LARGEST
    assert await asked(session, path="/chat") == USUAL


@pytest.mark.parametrize("cookie", ["", "0" * 32, "\0", "a\xff;;=;", '"'])
async def test_it_takes_none_of_strangers(cookie: str) -> None:
    assert await asked(cookie) == USUAL


async def test_it_takes_none_of_whoever_has_left() -> None:
    def left() -> str:
        client = Client()
        client.force_login(somebody(), backend="django.contrib.auth.backends.ModelBackend")
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        client.logout()
        return session

    assert await asked(await run_in_database(left)) == USUAL
