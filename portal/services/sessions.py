"""Sessions in the database, under names that we have made."""

from __future__ import annotations

import re

from django.contrib.sessions.backends import db

NAME = re.compile(r"[a-z0-9]{32}", re.ASCII)


class SessionStore(db.SessionStore):
    """A cookie can carry anything, also what PostgreSQL refuses to look for (NUL): every page
    would fail. A name that cannot be one of ours is no session."""

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(key and NAME.fullmatch(key))
