"""Forms that bring files: larger than what Django otherwise gets, from people who are signed in."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY

from portal.api.intake import announced_size
from portal.api.reading import headers_of
from portal.api.threads import run_in_database
from portal.services.sessions import SessionStore


class LargeForms:
    """How many bytes a request may have. `pages` are the paths that files are posted to, and their own
    limit; of everybody else, and of strangers there too, it is the usual one."""

    def __init__(self, pages: Mapping[str, int]) -> None:
        self.pages = pages

    async def __call__(self, scope: MutableMapping[str, Any]) -> int:
        usual: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        largest = self.pages.get(scope["path"], usual)
        headers = headers_of(scope["headers"])
        if largest <= usual or announced_size(headers) <= usual:
            return usual
        session = _session_in(headers.get("cookie", ""))
        is_known = bool(session) and await run_in_database(partial(_is_signed_in, session))
        return largest if is_known else usual


def _session_in(cookies: str) -> str:
    try:
        found = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return found.value if found else ""


def _is_signed_in(session: str) -> bool:
    return SESSION_KEY in SessionStore(session)
