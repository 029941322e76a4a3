"""The environment the tests run in: theirs alone, whatever the developer's looks like.

The engine is chosen by SONDE_TEST_ENGINE: `sqlite` is embedded mode on a file, `postgres` is cluster
mode on PostgreSQL and Valkey. Every process of a run has its own DATA_DIR.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import django
import pytest
from django.conf import settings
from whitenoise.middleware import WhiteNoiseMiddleware

from tests.services import running

ROOT = Path(__file__).resolve().parent.parent
ENGINE = os.environ.get("SONDE_TEST_ENGINE", "sqlite")
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")

# Servers that this process had to start by itself, ended with it.
servers = ExitStack()


def setting_names() -> set[str]:
    """Every variable that the settings read, and its NAME_FILE form."""
    source = (ROOT / "portal" / "settings.py").read_text(encoding="utf-8")
    read = re.findall(r'env\.\w+\(\s*"([A-Z][A-Z0-9_]+)"', source)
    return {*read, *(f"{name}_FILE" for name in read)}


def clean_environment() -> None:
    """Forget the developer's settings and give this process its own."""
    for name in setting_names():
        os.environ.pop(name, None)
    os.environ |= {
        "SONDE_ENV_FILE": "",
        "DATA_DIR": str(process_folder() / "data"),
    }
    if ENGINE == "postgres":
        os.environ |= {"SONDE_MODE": "cluster", "DATABASE_URL": postgres_url(), "REDIS_URL": valkey_url()}


def set_up_django() -> None:
    """Load the settings from this very environment. The variable does not stay: pytest-django in an
    xdist worker would take it for a wish to load them before the worker has cleaned its environment."""
    if settings.configured:
        raise pytest.UsageError("the settings were read too early: unset DJANGO_SETTINGS_MODULE")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    django.setup()
    settings.PASSWORD_HASHERS = ["tests.hashing.QuickScrypt"]
    look_for_static_files_once()
    del os.environ["DJANGO_SETTINGS_MODULE"]


def look_for_static_files_once() -> None:
    """Each test client loads the middleware anew, which would look at some hundred files each time."""
    look = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, object] = {}

    def add_found(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    WhiteNoiseMiddleware.add_files_from_finders = add_found


def run_folder() -> Path:
    """One temporary folder for the whole run, handed on by environment and removed by its maker."""
    if "SONDE_TEST_FOLDER" not in os.environ:
        folder = os.environ["SONDE_TEST_FOLDER"] = tempfile.mkdtemp(prefix="sonde-tests-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(os.environ["SONDE_TEST_FOLDER"])


def process_folder() -> Path:
    """The part of the run's folder that belongs to this process."""
    folder = run_folder() / f"{ENGINE}-{WORKER}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def postgres_url() -> str:
    """The one PostgreSQL of the run: each worker makes its own databases in it."""
    if "TEST_DATABASE_URL" not in os.environ:
        os.environ["TEST_DATABASE_URL"] = servers.enter_context(running("postgres"))
    return os.environ["TEST_DATABASE_URL"]


def valkey_url() -> str:
    """A Valkey for this worker alone, since publish and subscribe know no database numbers; of a
    given server, a database of its own."""
    if "TEST_REDIS_URL" in os.environ:
        number = int(WORKER.removeprefix("gw")) + 1 if WORKER != "main" else 0
        return urlunsplit(urlsplit(os.environ["TEST_REDIS_URL"])._replace(path=f"/{number}"))
    return own_valkey()


@functools.cache
def own_valkey() -> str:
    return servers.enter_context(running("valkey"))
