"""The two databases, as Django is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from portal.env import EnvError


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": 0,
        "OPTIONS": {
            "timeout": 20,
            # Read-then-write transactions would get BUSY at once under DEFERRED (STACK §2.1).
            "transaction_mode": "IMMEDIATE",
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                " PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000"
            ),
        },
    }


def postgres(url: str) -> dict[str, Any]:
    """Of `postgresql://user:password@host:port/name?option=…`. Errors: EnvError."""
    parts = urlsplit(url)
    if not parts.path.strip("/"):
        raise EnvError("DATABASE_URL: names no database")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # A server that is gone without a word is given up in half a minute, not in a quarter of an hour.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
            "tcp_user_timeout": 30_000,
            **dict(parse_qsl(parts.query)),
            "pool": {"min_size": 1, "max_size": 16, "timeout": 10},
            "connect_timeout": 5,
        },
    }
