"""What has to be true before anything is served; each step may be cut short and run again.

Several processes may start at once: on PostgreSQL they take turns by an advisory lock, in
embedded mode the data folder admits one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from portal.models.users import User
from portal.services import credentials, keys, ledger_guard, notify, tables, upstreams, users
from portal.services.errors import Invalid
from portal.wire.redact import redact
from proxy.models.catalog import ChatModel
from proxy.services import sessions
from proxy.upstream import transport

Say = Callable[[str], None]
TURN = 7_663_633
"""The advisory lock's number: any, but the same in every version."""
DATABASE_SECONDS = 30.0
FIRST_KEY_NAME = "First key"


class NotReady(Exception):
    """The portal cannot start. One line for people."""


def wait_for_database(say: Say) -> None:
    """A database server that starts beside us gets some time. Errors: NotReady."""
    deadline = time.monotonic() + DATABASE_SECONDS
    told = False
    while True:
        try:
            connection.ensure_connection()
            return
        except OperationalError as error:
            if time.monotonic() > deadline:
                reason = redact(" ".join(str(error).split()))
                raise NotReady(f"DATABASE_URL: the database does not answer: {reason}") from None
        if not told:
            say("waiting for the database")
            told = True
        time.sleep(0.5)


@contextmanager
def turn() -> Iterator[None]:
    """One process at a time within the block."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [TURN])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [TURN])


def check() -> None:
    """Whether the tables are as this version needs them. Errors: NotReady."""
    try:
        if not tables.are_current():
            raise NotReady("the database is not up to date: run bin/up once, or manage.py migrate")
    finally:
        connection.close()


def migrate(say: Say) -> None:
    """Bring the tables up to date, and the triggers that guard ledger and audit back in place."""
    if not tables.are_current():
        say("bringing the database up to date")
        call_command("migrate", verbosity=0, interactive=False)
    # A start that was killed between the two left tables without a guard.
    ledger_guard.install()


def make_first_admin(show: Callable[[str, str, str], None]) -> str | None:
    """The first admin and its API key, shown as (email, password, key); None when there is one.

    They are shown before they are committed: whoever is killed in between has seen credentials
    that do not exist and gets new ones at the next start, instead of having lost the only ones.
    """
    with transaction.atomic():
        made = users.ensure_first_admin()
        if made is None:
            return None
        user, password = made
        _, key = keys.create_key(user, name=FIRST_KEY_NAME)
        show(user.email, password, key)
    return key


def import_environment() -> None:
    """Take over the credentials that the environment holds. Errors: NotReady, SealError."""
    # In the sandbox nobody needs curl, so it is loaded only for a profile that somebody chose.
    is_chosen = settings.PPLX_IMPERSONATE != settings.USUAL_PROFILE
    if (is_chosen or not upstreams.uses_sandbox()) and (problem := transport.profile_problem()):
        raise NotReady(problem)
    if settings.SONDE_UPSTREAM != "sandbox":
        credentials.import_from_environment()
        try:
            sessions.import_from_environment()
        except Invalid as error:
            raise NotReady(f"PPLX_COOKIE: {error}") from None
    if settings.PPLX_PROXY_API_KEY:
        admin = User.objects.filter(is_staff=True, is_active=True).order_by("pk").first()
        try:
            if admin is not None:
                keys.import_key(admin, settings.PPLX_PROXY_API_KEY)
        except Invalid as error:
            raise NotReady(str(error)) from None


def complaints() -> Iterator[str]:
    """Settings of which something will not work while the rest does: one line each, no reason to stop."""
    if problem := notify.problem():
        yield f"{problem}: no messages are sent"
    name = settings.DEFAULT_MODEL
    if not ChatModel.objects.filter(pk=name).exists():
        yield f"DEFAULT_MODEL: there is no model called {name}: chats that name none are refused"
